"""Networks of any kind, one after the other, behind the interface of `FullyConnectedEnsemble`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from common.models import initialise_uniform
from common.training.fully_connected import LossName


class ModuleEnsemble:
    """Networks of one architecture whose parameters are the rows of `weights`; passes go member by member.

    For networks that have no batched form that would be faster (convolutions); `Descent` trains either kind.

    Attributes:
        make: builds one network; its initial parameters do not matter.
        loss: as for `FullyConnectedEnsemble`.
        chunk: examples that a pass takes at once, all if None; losses and gradients differ by rounding alone.
        weights, gradients: [members, parameters], in the order of `make().parameters()`.
    """

    def __init__(
        self, make: Callable[[], nn.Module], weights: torch.Tensor, *, loss: LossName = "mse", chunk: int | None = None
    ) -> None:
        """Networks with the parameters `weights` [members, parameters], which are kept, not copied."""
        self.make, self.weights, self.chunk = make, weights, chunk
        self.loss: LossName = loss
        self.gradients = torch.zeros_like(weights)
        self._model = make().to(weights)
        self._shapes = {name: parameter.shape for name, parameter in self._model.named_parameters()}
        count = sum(shape.numel() for shape in self._shapes.values())
        if weights.dim() != 2 or weights.shape[1] != count:
            raise ValueError(f"weights {tuple(weights.shape)}: rows of {count} parameters are needed.")

    @classmethod
    def drawn(
        cls,
        make: Callable[[], nn.Module],
        generators: Sequence[torch.Generator],
        *,
        loss: LossName = "mse",
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> ModuleEnsemble:
        """One member a generator, with PyTorch's default initialisation, drawn in float32."""
        rows = []
        for generator in generators:
            model = make()
            initialise_uniform(model, generator)
            rows.append(nn.utils.parameters_to_vector(model.parameters()).detach())
        return cls(make, torch.stack(rows).to(device, dtype), loss=loss)

    def __len__(self) -> int:
        return len(self.weights)

    def module(self, member: int) -> nn.Module:
        """An ordinary network with a copy of the member's parameters."""
        model = self.make().to(self.weights)
        nn.utils.vector_to_parameters(self.weights[member].clone(), model.parameters())
        return model

    def members(self, chosen: Sequence[int] | torch.Tensor) -> ModuleEnsemble:
        """An ensemble of copies of the chosen members."""
        rows = self.weights[torch.as_tensor(chosen, dtype=torch.int64, device=self.weights.device)]
        return ModuleEnsemble(self.make, rows, loss=self.loss, chunk=self.chunk)

    @torch.no_grad()
    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs [members, n, outputs] for inputs [n, features] shared by all, or [members, n, features]."""
        return torch.stack([self._outputs(self.weights[k], _own(inputs, k, 2)) for k in range(len(self))])

    @torch.no_grad()
    def losses(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of each member [members]; data as for `FullyConnectedEnsemble.losses_and_gradients`."""
        rows = enumerate(self.weights)
        return torch.stack([torch.stack(list(self._parts(row, inputs, targets, k))).sum() for k, row in rows])

    def losses_and_gradients(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of each member [members] on its batch; fills `gradients`."""
        found = []
        for member in range(len(self)):
            row = self.weights[member].detach().requires_grad_()
            loss, gradient = torch.zeros_like(row[0]), torch.zeros_like(row)
            for part in self._parts(row, inputs, targets, member):
                gradient += torch.autograd.grad(part, row)[0]
                loss += part.detach()
            self.gradients[member] = gradient
            found.append(loss.detach())
        return torch.stack(found)

    def sgd_step(self, inputs: torch.Tensor, targets: torch.Tensor, learning_rates: torch.Tensor) -> torch.Tensor:
        """w ← w − learning rate · gradient; the losses before the step [members]."""
        losses = self.losses_and_gradients(inputs, targets)
        self.weights.addcmul_(self.gradients, learning_rates[:, None], value=-1)
        return losses

    def _outputs(self, row: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        parts = row.split([shape.numel() for shape in self._shapes.values()])
        named = {n: p.view(shape) for (n, shape), p in zip(self._shapes.items(), parts, strict=True)}
        outputs: torch.Tensor = functional_call(self._model, named, (inputs,))
        return outputs

    def _parts(
        self, row: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, member: int
    ) -> Iterator[torch.Tensor]:
        """The loss chunk by chunk: its sum is the mean over all examples."""
        mse = self.loss == "mse"
        inputs, targets = _own(inputs, member, 2), _own(targets, member, 2 if mse else 1)
        size = self.chunk or len(inputs)
        for images, expected in zip(inputs.split(size), targets.split(size), strict=True):
            outputs = self._outputs(row, images)
            loss = functional.mse_loss(outputs, expected) if mse else functional.cross_entropy(outputs, expected)
            yield loss if len(images) == len(inputs) else loss * (len(images) / len(inputs))


def _own(tensor: torch.Tensor, member: int, shared: int) -> torch.Tensor:
    """The member's part of `tensor`; all of it if it has the dimensions of one that members share."""
    return tensor if tensor.dim() == shared else tensor[member]
