"""Many fully connected ReLU networks trained by one batched forward and backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch.nn import functional

from common.models import FullyConnected, initialise_uniform
from common.models.fully_connected import parameter_count

LossName = Literal["mse", "cross_entropy"]
Layer = tuple[torch.Tensor, torch.Tensor]
CACHE = 6 << 20
"""Bytes of weights that a CPU works on at a time: a third faster than all at once where weights exceed its cache."""


class FullyConnectedEnsemble:
    """Networks `FullyConnected(sizes)` whose parameters are the rows of `weights` [members, parameters].

    Each layer is one batched matrix product over all members, forward and backward; no autograd. Coordinates lie in
    the order of `FullyConnected.parameters()`. All of a member's numbers depend on its own row and data alone.

    Attributes:
        sizes: inputs, hidden units of each layer, outputs.
        loss: "mse", the mean of squared errors over examples and outputs as in `torch.nn.MSELoss`, targets
            […, outputs]; or "cross_entropy", the mean over examples in nats, targets are classes […].
        weights, gradients: [members, parameters].
    """

    def __init__(self, sizes: Sequence[int], weights: torch.Tensor, *, loss: LossName = "mse") -> None:
        """Networks with the parameters `weights` [members, parameters], which are kept, not copied.

        Raises:
            ValueError: rows that are not of the length that `sizes` asks for, or an unknown loss.
        """
        self.sizes = tuple(sizes)
        if weights.dim() != 2 or weights.shape[1] != parameter_count(sizes):
            raise ValueError(f"weights {tuple(weights.shape)}: rows of {parameter_count(sizes)} parameters are needed.")
        if loss not in ("mse", "cross_entropy"):
            raise ValueError(f"loss {loss!r} is neither 'mse' nor 'cross_entropy'.")
        self.loss: LossName = loss
        self.weights = weights
        self.gradients = torch.zeros_like(weights)

    @classmethod
    def drawn(
        cls,
        sizes: Sequence[int],
        generators: Sequence[torch.Generator],
        *,
        loss: LossName = "mse",
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> FullyConnectedEnsemble:
        """One member a generator, with PyTorch's default initialisation (`initialise_uniform`), drawn in float32."""
        weights = torch.empty(len(generators), parameter_count(sizes))
        for row, generator in zip(weights, generators, strict=True):
            model = FullyConnected(sizes)
            initialise_uniform(model, generator)
            torch.cat([parameter.detach().flatten() for parameter in model.parameters()], out=row)
        return cls(sizes, weights.to(device, dtype), loss=loss)

    def __len__(self) -> int:
        return len(self.weights)

    def layers(self, rows: torch.Tensor) -> list[Layer]:
        """Views of `rows` [m, parameters]: weight [m, out, in] and bias [m, out] of each layer."""
        found, start = [], 0
        for inputs, outputs in pairwise(self.sizes):
            end = start + inputs * outputs
            weight = rows[:, start:end].unflatten(1, (outputs, inputs))
            found.append((weight, rows[:, end : end + outputs]))
            start = end + outputs
        return found

    def module(self, member: int) -> FullyConnected:
        """An ordinary network with a copy of the member's parameters."""
        model = FullyConnected(self.sizes).to(self.weights)
        torch.nn.utils.vector_to_parameters(self.weights[member].clone(), model.parameters())
        return model

    def members(self, chosen: Sequence[int] | torch.Tensor) -> FullyConnectedEnsemble:
        """An ensemble of copies of the chosen members."""
        rows = self.weights[torch.as_tensor(chosen, dtype=torch.int64, device=self.weights.device)]
        return FullyConnectedEnsemble(self.sizes, rows, loss=self.loss)

    @torch.no_grad()
    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs [members, n, outputs] for inputs [n, features] shared by all, or [members, n, features]."""
        return torch.cat([self._forward(part, _of(inputs, part, 2))[-1] for part in self._parts()])

    @torch.no_grad()
    def losses(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of each member [members]; data as for `losses_and_gradients`."""
        found = []
        for part in self._parts():
            outputs = self._forward(part, _of(inputs, part, 2))[-1]
            found.append(self._loss(outputs, self._targets(targets, part), slope=False)[0])
        return torch.cat(found)

    @torch.no_grad()
    def losses_and_gradients(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of each member [members] on its batch; fills `gradients`.

        Args:
            inputs: [n, features], one batch for all members, or [members, n, features].
            targets: [n, …] or [members, n, …], see `loss`.
        """
        found = []
        for part in self._parts():
            values = self._forward(part, _of(inputs, part, 2))
            losses, slope = self._loss(values.pop(), self._targets(targets, part))
            slots = self.layers(self.gradients[part])

            def write(layer: int, slope: torch.Tensor, values: torch.Tensor, slots: list[Layer] = slots) -> None:
                weight, bias = slots[layer]
                weight.baddbmm_(slope.mT, values, beta=0)
                torch.sum(slope, 1, out=bias)

            self._backward(part, values, slope, write)
            found.append(losses)
        return torch.cat(found)

    @torch.no_grad()
    def sgd_step(self, inputs: torch.Tensor, targets: torch.Tensor, learning_rates: torch.Tensor) -> torch.Tensor:
        """w ← w − learning rate · gradient without a pass over `gradients`: plain SGD, half the traffic of memory.

        Args:
            inputs, targets: as for `losses_and_gradients`.
            learning_rates: [members].

        Returns:
            Losses before the step [members].
        """
        found = []
        for part in self._parts():
            values = self._forward(part, _of(inputs, part, 2))
            losses, slope = self._loss(values.pop(), self._targets(targets, part))
            slope.mul_(learning_rates[part, None, None])
            slots = self.layers(self.weights[part])

            def move(layer: int, slope: torch.Tensor, values: torch.Tensor, slots: list[Layer] = slots) -> None:
                weight, bias = slots[layer]
                weight.baddbmm_(slope.mT, values, alpha=-1)
                bias.sub_(slope.sum(1))

            self._backward(part, values, slope, move)
            found.append(losses)
        return torch.cat(found)

    def _parts(self) -> list[slice]:
        """Members that are computed together: on a CPU as many as have their weights in the cache (`CACHE`)."""
        count = len(self)
        if self.weights.device.type == "cpu":
            count = max(1, CACHE // (self.weights.element_size() * max(1, self.weights.shape[1])))
        return [slice(start, start + count) for start in range(0, len(self), count)]

    def _targets(self, targets: torch.Tensor, part: slice) -> torch.Tensor:
        return _of(targets, part, 2 if self.loss == "mse" else 1)

    def _forward(self, part: slice, inputs: torch.Tensor) -> list[torch.Tensor]:
        """The inputs, the values of each hidden layer, and the outputs, each [members, n, ·]."""
        rows = self.weights[part]
        values = [inputs if inputs.dim() == 3 else inputs.expand(len(rows), *inputs.shape)]
        last = len(self.sizes) - 2
        for number, (weight, bias) in enumerate(self.layers(rows)):
            made = torch.baddbmm(bias[:, None, :], values[-1], weight.mT)
            values.append(made if number == last else made.relu_())
        return values

    def _loss(
        self, outputs: torch.Tensor, targets: torch.Tensor, slope: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Losses [members] and their derivatives by the outputs [members, n, outputs] (in place of the outputs)."""
        members, count = outputs.shape[:2]
        if self.loss == "mse":
            error = outputs.sub_(targets)
            losses = error.square().mean((1, 2))
            return losses, error.mul_(2 / (count * outputs.shape[2])) if slope else error
        logarithms = outputs.log_softmax(2)
        places = targets.expand(members, count)[..., None]
        losses = -logarithms.gather(2, places).mean((1, 2))
        if not slope:
            return losses, logarithms
        shares = logarithms.exp_().scatter_add_(2, places, logarithms.new_full((1, 1, 1), -1.0).expand(places.shape))
        return losses, shares.div_(count)

    def _backward(
        self,
        part: slice,
        values: list[torch.Tensor],
        slope: torch.Tensor,
        use: Callable[[int, torch.Tensor, torch.Tensor], None],
    ) -> None:
        """Call `use(layer, derivative by the layer's outputs, the layer's inputs)` from the last layer to the first."""
        layers = self.layers(self.weights[part])
        for number in range(len(layers) - 1, -1, -1):
            before = torch.bmm(slope, layers[number][0]) if number else None
            use(number, slope, values[number])
            if before is not None:
                slope = torch.ops.aten.threshold_backward(before, values[number], 0)


def _of(tensor: torch.Tensor, part: slice, shared: int) -> torch.Tensor:
    """The members' part of `tensor`; all of it if it has the dimensions of one that members share."""
    return tensor if tensor.dim() == shared else tensor[part]


def one_hot(classes: torch.Tensor, outputs: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Targets of the squared loss [n, outputs] for classes [n]."""
    return functional.one_hot(classes, outputs).to(dtype)
