"""The one object that everything here measures: a model, a loss and data.

    L(w) = 1/N Σ_n ℓ(f(xₙ; w), yₙ), or the sum without 1/N if that is what the loss gives

The data are taken in chunks; sums over examples are divided once, so an uneven last chunk has the right weight.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from common.complaints import explained, shapes
from common.hessian.chunks import FEW, Chunks, Data, Inputs, chunks_of, take
from common.hessian.counted import counted_loss
from common.hessian.double_backward import custom_functions
from common.hessian.execution import Execution
from common.hessian.losses import Loss, OutputCurvature, looked_at, output_curvature, reduction_of
from common.hessian.outputs import Layout, Numbers
from common.hessian.random import normal, signs
from common.hessian.ranks import ALONE, Ranks, Value, fingerprint, require_whole
from common.hessian.saved import saved_bytes
from common.hessian.structure import Structure, inspect
from common.hessian.verification import Verified, require_derivatives

SAVED = 2e9
"""Bytes that the examples of a chunk may keep for a gradient where its size is not given."""


class Problem:
    """A model, a loss and data, checked once, to be measured by the functions of this package.

    Args:
        model: examples must not influence each other (BatchNorm in evaluation mode, no active dropout).
        loss: `loss(outputs, targets)`, the mean or the sum over examples (found out, not assumed).
        data: (inputs, targets), or a loader or list of such batches, which is read once and kept; `Streamed` reads
            a loader anew in every pass, `Distributed` and `Divided` spread the examples over processes.
            Inputs are a tensor [n, …], or a tuple or dict of them; targets a tensor [n, …]. A batch may also be one
            dict, of which `labels` are the targets.
        parameters: names of the parameters to differentiate by; default all that require a gradient. Tied
            parameters count once.
        chunk: examples a pass takes at once; default 256 for convolutional networks (larger chunks are slower on
            a CPU), else 2048, or as many as keep 2 GB for a gradient (`SAVED`): a product with the Hessian takes a
            few times that. Results do not depend on it but for rounding and for what is drawn.
        verify: check derivatives before they are first used (`verification.py`); False trusts them.

    Attributes:
        names, parameters: what is differentiated by, in the order of `model.named_parameters()`.
        size: P, the length of the flat vector of these parameters.
        chunks: the examples of this process.
        count: N, the number of examples, over all processes.
        scale: 1/N or 1, the factor before the sum over examples.
        convolutions: how many layers of the model are.
        verified: what has been checked of it, and what is computed otherwise than the model has it (`verified.said`).

    Raises:
        ValueError: empty data, inputs that the model or outputs that the loss does not take, NaN parameters or loss, a
            loss that is neither mean nor sum, that has no derivative in the outputs or that knows the weights by
            another way than these, examples that influence each other, no parameters, mixed types or devices, a model
            spread over devices.
        RanksApart: several processes of which the weights differ, or one is gone.

    Example:
        >>> problem = Problem(nn.Linear(2, 1), nn.MSELoss(), (torch.ones(5, 2), torch.ones(5, 1)))
        >>> problem.count, problem.size, problem.names
        (5, 3, ['weight', 'bias'])
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: Any,
        *,
        parameters: Iterable[str] | None = None,
        chunk: int | None = None,
        verify: bool = True,
    ) -> None:
        self.ranks: Ranks = data.ranks if isinstance(data, Data) else ALONE
        self.loss_function = loss
        self.verified = Verified(wanted=verify)
        self._whole: Problem | None = None
        with self.ranks.together():
            require_whole(model)
            self.execution = Execution(model)
            self.model = self.execution.model
            self._prepare(data, parameters, chunk)

    def _prepare(self, data: Any, parameters: Iterable[str] | None, chunk: int | None) -> None:
        if torch.is_inference_mode_enabled():
            raise ValueError("Under torch.inference_mode() there are no derivatives: make and use the Problem outside.")
        model = self.model
        self._of_mode = _modules_of_mode(model)
        _require_evaluation(self._of_mode)
        self.names, self.parameters = _selected(model, parameters)
        self._held = _held(model, self.parameters)
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.size = sum(self.sizes)
        self.dtype, self.device = self.parameters[0].dtype, self.parameters[0].device
        self.convolutions = sum(isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d) for m in model.modules())
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk = {chunk}: at least one example goes through the model at once.")
        most = chunk or (256 if self.convolutions else 2048)
        self.chunks: Chunks = chunks_of(data, most, self.device)
        self.count = self.chunks.count
        self._checked: tuple[list[int], int] | None = None
        self._check_outputs()
        if chunk is None and not isinstance(data, Chunks):
            fitting = max(1, int(SAVED // max(self._saved_of_an_example(), 1)))
            if fitting < most:
                here = self.device
                self.chunks = data.chunks_of(fitting, here) if isinstance(data, Data) else self.chunks.cut(fitting)
        self.scale = 1 / self.count if self.reduction == "mean" else 1.0
        self.completed(0.0)  # which compares the weights of the ranks

    def _check_outputs(self) -> None:
        first = self.chunks.first
        few = take(first.inputs, slice(0, min(len(first), 8)))
        targets = first.targets[: min(len(first), 8)]
        with torch.no_grad():
            with explained(lambda: f"The model does not take inputs {shapes(few)}"):
                self.execution.look_at_masks(few)
                raw = self._looked_at(few)
            with explained(lambda: f"The loss does not take what the model returns with targets {shapes(targets)}"):
                self._layout = self._layout_of(raw, targets)
            self._loss: Loss = self._layout.loss if self._layout else self.loss_function
            outputs = (self._layout.tensor(raw) if self._layout else raw).detach()
            if outputs.shape[:1] != targets.shape[:1]:
                raise ValueError("The model must return one tensor whose first axis runs over the examples.")
            half = (len(outputs) + 1) // 2
            alone = self.outputs(take(few, slice(0, half)))
        if not torch.isfinite(outputs).all():
            raise ValueError("The outputs of the model hold NaN or infinite values.")
        tolerance = 1e-3 if self.dtype == torch.float32 else 1e-8
        if not torch.allclose(outputs[:half], alone, rtol=tolerance, atol=tolerance * float(outputs.abs().max())):
            raise ValueError(
                "The outputs of an example depend on the others in its batch, or on chance: the loss is then not "
                "a mean over examples."
            )
        with explained(lambda: f"The loss does not take outputs {shapes(outputs)} with targets {shapes(targets)}"):
            self._loss(outputs, targets)
        classes = self.chunks.classes()
        some, of_some = looked_at(outputs, targets, classes, self.count)
        self._counted = counted_loss(self.loss_function, self._loss, some, of_some, classes)
        self._require_loss_of_outputs(outputs, targets)
        self.reduction = "mean" if self._counted else reduction_of(self._loss, some, of_some)
        self.outputs_per_example = outputs[0].numel()
        loss = self._counted or (self.loss_function if isinstance(self._layout, Numbers) else self._loss)
        self.curvature: OutputCurvature = output_curvature(loss, self.summed_loss, outputs, targets)

    def _looked_at(self, inputs: Inputs) -> Any:
        """What the model returns where nothing is recorded."""
        try:
            return self.execution(inputs)
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
            raise ValueError(
                "The model takes a derivative in its forward pass: let it do so within torch.enable_grad(), as it is "
                "also called where nothing is recorded."
            ) from error

    def _layout_of(self, raw: Any, targets: torch.Tensor) -> Layout | Numbers | None:
        """How outputs that are not one tensor [n, …] become one."""
        if not isinstance(raw, torch.Tensor):
            return Layout(self.loss_function, raw, targets)
        return Numbers(self.loss_function) if raw.ndim < 2 else None

    def _require_loss_of_outputs(self, outputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Refuse a loss that knows the weights by another way than the outputs, and one that is not finite."""
        with torch.enable_grad(), self.only_selected():
            value = self._loss(outputs.detach().requires_grad_(), targets)
            if not isinstance(value, torch.Tensor):
                raise ValueError(
                    f"The loss returns a {type(value).__name__}, which has no derivative, in the place of a tensor "
                    "(is there `.item()` or `float()` in it?)."
                )
            if self._counted is None and not value.isfinite().all():
                raise ValueError("The loss of the first examples is NaN or infinite: look at their targets.")
            if not value.requires_grad:
                raise ValueError("The loss has no derivative in the outputs of the model.")
            if value.ndim:
                return
            found = torch.autograd.grad(value, self.parameters, allow_unused=True)
        reached = [name for name, slope in zip(self.names, found, strict=True) if slope is not None]
        if reached:
            raise ValueError(
                f"The loss depends on {reached[0]} other than through the outputs (a penalty on the weights?): give "
                "the loss of the outputs alone. A penalty λ‖w‖² adds 2λ to every eigenvalue of the Hessian."
            )

    def _saved_of_an_example(self) -> float:
        """Bytes that a recorded forward pass keeps of one example, found out with two; 0 where there are few."""
        count = min(2, len(self.chunks.first))
        if self.count <= FEW:
            return 0.0
        with torch.enable_grad(), self.only_selected():
            return saved_bytes(lambda: self.outputs(self.first_inputs(count)), self.model) / count

    def __repr__(self) -> str:
        loss = getattr(self.loss_function, "__name__", type(self.loss_function).__name__)
        sizes = f"{self.count:,} examples, {self.size:,} parameters in {len(self.names)} tensors"
        return f"Problem({type(self.model).__name__}, {loss}, {self.reduction} over {sizes})"

    def restricted(self, names: Iterable[str]) -> "Problem":
        """The same model, loss and data with only these parameters to differentiate by."""
        if self._whole is not None:
            return self._whole.restricted(names).linear_in_outputs()
        part = Problem(self.model, self.loss_function, self.chunks, parameters=names)
        part.execution, part.verified = self.execution, self.verified.shared()
        return part

    def linear_in_outputs(self) -> "Problem":
        """The same with the loss Σ_n ⟨∂ℓₙ/∂fₙ, fₙ⟩, the derivatives held fixed: equal gradients, the Hessian H − G."""
        part = copy.copy(self)
        part._whole = self
        return part

    def with_parameters(self, parameters: list[nn.Parameter]) -> "Problem":
        """The same, differentiated by these, which stand in the places of its own (`Sample.weights`)."""
        part = copy.copy(self)
        part.parameters = parameters
        return part

    def outputs(self, inputs: Inputs, values: Mapping[str, torch.Tensor] | None = None) -> torch.Tensor:
        """f(x; w) [n, …]; called as `execution.py` says.

        Args:
            values: tensors in place of the parameters of these names (first names, of tied ones), for vmap and
                forward derivatives.
        """
        _require_evaluation(self._of_mode)
        if not self.execution.lent:
            _require_own(self._held)
        tensors = None
        if values is not None:
            tensors = {place: values[name] for place, name in self._places.items() if name in values}
        outputs = self.execution(inputs, tensors)
        return self._layout.tensor(outputs) if self._layout else outputs

    @cached_property
    def _places(self) -> dict[str, str]:
        """Every place of every selected parameter, with its first name.

        `functional_call` ties weights itself, but in torch 2.13 it leaves a module that is registered under two names
        with the substituted tensors in place of its parameters; so the places are spelt out, each module once.
        """
        names = {id(parameter): name for name, parameter in zip(self.names, self.parameters, strict=True)}
        return {
            f"{prefix}.{own}" if prefix else own: names[id(parameter)]
            for prefix, module in self.model.named_modules()
            for own, parameter in module.named_parameters(recurse=False)
            if id(parameter) in names
        }

    def summed_loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Σ_n ℓ(outputsₙ, targetsₙ), or what is linear in the outputs (`linear_in_outputs`)."""
        if self._whole is not None:
            return (outputs * self.output_gradient(outputs, targets)).sum()
        return self._summed(outputs, targets)

    def _summed(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self._counted is not None:
            return self._counted(outputs, targets)
        value = self._loss(outputs, targets)
        return value * len(outputs) if self.reduction == "mean" else value

    def output_gradient(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """∂ℓₙ/∂outputsₙ of each example, shape of `outputs`."""
        variables = outputs.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self._summed(variables, targets), variables)
        return slope

    @cached_property
    def structure(self) -> Structure:
        """Which rules hold for this network (found out on two examples)."""
        first = self.chunks.first
        return inspect(
            self.model, self.parameters, lambda: self.outputs(take(first.inputs, slice(0, min(2, len(first)))))
        )

    def first_inputs(self, count: int) -> Inputs:
        """The inputs of the first examples, at most those of `chunks.first`."""
        return take(self.chunks.first.inputs, slice(0, count))

    def _loss_of_few(self) -> torch.Tensor:
        """Σ ℓ of eight examples, recorded."""
        inputs, targets = self.first_inputs(8), self.chunks.first.targets[:8]
        with torch.enable_grad(), self.only_selected():
            return self.summed_loss(self.outputs(inputs), targets)

    @cached_property
    def custom_functions(self) -> list[str]:
        """Names of the custom autograd functions in the graph of the loss."""
        return custom_functions(self._loss_of_few())

    def require_second_derivatives(self) -> None:
        """Look once whether the network and the loss are differentiated twice rightly (`verification.py`).

        Raises:
            WrongDerivativeError: they are not.
        """
        require_derivatives(self._whole or self, order=2)

    def require_mean(self) -> None:
        """
        Raises:
            ValueError: the loss is a sum, so that there is no noise of the gradient of one random example.
        """
        if self.reduction == "sum":
            raise ValueError("Gradient noise is defined for a loss that is a mean over examples, this one is a sum.")

    @contextmanager
    def only_selected(self, active: bool = True) -> Iterator[None]:
        """Within: exactly the selected parameters require a gradient (none if not `active`)."""
        selected = {id(parameter) for parameter in self.parameters}
        before = [(parameter, parameter.requires_grad) for parameter in self.model.parameters()]
        for parameter, _ in before:
            parameter.requires_grad_(active and id(parameter) in selected)
        try:
            yield
        finally:
            for parameter, state in before:
                parameter.requires_grad_(state)

    def loss(self) -> float:
        """L(w), at the cost of 1/3 gradient.

        Raises:
            ValueError: it is NaN.
        """
        with torch.no_grad():
            parts = [float(self.summed_loss(self.outputs(c.inputs), c.targets)) for c in self.chunks]
        finite = all(math.isfinite(part) for part in parts)
        total = self.completed(math.fsum(parts) if finite else float(sum(parts))) * self.scale
        if math.isnan(total):
            raise ValueError("The loss is NaN.")
        return total

    def gradient(self) -> torch.Tensor:
        """∇L(w), flat [P]."""
        total = torch.zeros(self.size, dtype=self.dtype, device=self.device)
        with self.only_selected():
            for chunk in self.chunks:
                value = self.summed_loss(self.outputs(chunk.inputs), chunk.targets)
                total += self.flat(torch.autograd.grad(value, self.parameters, materialize_grads=True))
        return self.completed(total) * self.scale

    def completed(self, total: Value) -> Value:
        """A sum over the examples of this process (a number, a tensor, or a list of them) made one over all N."""
        return self.ranks.total(total, self._fingerprint())

    def gathered(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the examples of this process, in rows, joined to those of all N; every process holds them all."""
        return self.ranks.gathered(values, self._fingerprint())

    def _fingerprint(self) -> int:
        """Of the weights and buffers, which must be equal on all ranks."""
        if self.ranks.count == 1:
            return 0
        tensors = [t for t in (*self.model.parameters(), *self.model.buffers()) if t.is_floating_point()]
        versions = [tensor._version for tensor in tensors]
        if self._checked is None or self._checked[0] != versions:
            self._checked = versions, fingerprint(tensors)
        return self._checked[1]

    def standing(self) -> tuple[list[float], list[int]]:
        """What a recorded pass rests on, other than it was after a change of weights, buffers or kept data.

        The sum of each weight, as torch does not see what is written by way of `.data`, and a number that it raises
        with each write that it does see.
        """
        own = [*self.model.parameters(), *self.model.buffers()]
        sums = torch.stack([parameter.detach().sum() for parameter in self.model.parameters()]).tolist()
        places = [number for tensor in own for number in (tensor.data_ptr(), tensor._version)]
        return sums, places + self.chunks.versions()

    def vector(self) -> torch.Tensor:
        """The selected parameters, flat [P] (a copy)."""
        return self.flat([parameter.detach() for parameter in self.parameters])

    def random_signs(self, source: torch.Generator) -> torch.Tensor:
        """A probe vector [P] of independent signs ±1."""
        return signs((self.size,), source, self.parameters[0].detach())

    def random_normal(self, source: torch.Generator) -> torch.Tensor:
        """A vector [P] of independent standard normal numbers."""
        return normal((self.size,), source, self.parameters[0].detach())

    def flat(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Tensors in the shapes of `parameters` as one vector [P]."""
        return torch.cat([tensor.reshape(-1) for tensor in tensors])

    def split(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """A vector [P] as tensors in the shapes of `parameters`.

        Raises:
            ValueError: another shape.
        """
        if vector.shape != (self.size,):
            raise ValueError(f"A vector of shape {tuple(vector.shape)} was given, expected ({self.size},).")
        parts = vector.to(self.parameters[0]).split(self.sizes)
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)]

    @contextmanager
    def at(self, vector: torch.Tensor) -> Iterator[None]:
        """Within: the parameters have these values [P]; afterwards their own again, to the bit."""
        before = [parameter.detach().clone() for parameter in self.parameters]
        new = self.split(vector)
        try:
            with torch.no_grad():
                for parameter, value in zip(self.parameters, new, strict=True):
                    parameter.copy_(value)
            yield
        finally:
            with torch.no_grad():
                for parameter, value in zip(self.parameters, before, strict=True):
                    parameter.copy_(value)


def _selected(model: nn.Module, names: Iterable[str] | None) -> tuple[list[str], list[nn.Parameter]]:
    known = dict(model.named_parameters())
    if names is None:
        chosen = {name: parameter for name, parameter in known.items() if parameter.requires_grad}
    else:
        wanted = set(names)
        if isinstance(names, str) or not all(isinstance(name, str) for name in wanted):
            raise ValueError("`parameters` are names of the model's parameters, in a list.")
        missing = sorted(wanted - known.keys())
        if missing:
            raise ValueError(f"The model has no parameter {missing[0]!r}; tied parameters go by their first name.")
        chosen = {name: parameter for name, parameter in known.items() if name in wanted}
    if not chosen:
        raise ValueError("The model has no parameter to differentiate by (all are frozen, or none was named).")
    for name, parameter in known.items():
        if not torch.isfinite(parameter).all():
            raise ValueError(f"Parameter {name!r} holds NaN or infinite values.")
    kinds = {(parameter.dtype, parameter.device) for parameter in chosen.values()}
    if len(kinds) > 1 or next(iter(kinds))[0] not in (torch.float32, torch.float64):
        raise ValueError("The parameters must all be float32 or all float64, on one device.")
    return list(chosen), list(chosen.values())


Place = tuple[nn.Module, str, nn.Module | nn.Parameter]


def _held(model: nn.Module, parameters: Iterable[nn.Parameter]) -> list[Place]:
    """Where a model holds its modules and these parameters: module, name there, what is there."""
    chosen = {id(parameter) for parameter in parameters}
    places: list[Place] = []
    for module in model.modules():
        places.extend((module, name, child) for name, child in module.named_children())
        places.extend((module, name, p) for name, p in module.named_parameters(recurse=False) if id(p) in chosen)
    return places


def _require_own(places: Iterable[Place]) -> None:
    for module, name, held in places:
        if getattr(module, name, None) is not held:
            raise ValueError(
                f"{name!r} of a {type(module).__name__} of the model is another than when the problem was made, so "
                "that derivatives would be of what is no longer there: make a new Problem, or copy values in place."
            )


def _modules_of_mode(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """What makes another function of the model in training: BatchNorm and dropout, by name."""
    return [(name, m) for name, m in model.named_modules() if isinstance(m, _BatchNorm | _DropoutNd)]


def _require_evaluation(modules: Iterable[tuple[str, nn.Module]]) -> None:
    for name, module in modules:
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f"{name or 'model'} (BatchNorm) uses the statistics of the batch, so examples influence each other "
                "and the loss is not a mean over examples: call model.eval() with running statistics."
            )
        if isinstance(module, _DropoutNd) and module.training and module.p > 0:
            raise ValueError(f"{name or 'model'} (dropout) is active, so the loss is random: call model.eval().")
