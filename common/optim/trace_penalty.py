"""The trace of the Gauss–Newton matrix, or of the Hessian, as a term of the training loss.

    L(w) + η Tr G(w),   Tr G = 1/N Tr JᵀΛJ = E ‖ N^{-1/2} Σₙ Jₙᵀ Sₙ zₙ ‖²,   Λₙ = Sₙ Sₙᵀ

with J the derivative of all outputs of the mini-batch by the weights (through batch statistics too), Λₙ the second
derivative of the cross-entropy by the outputs of example n, and random signs zₙ of each example's own. What is squared
is one backward pass with random cotangents; its derivative, which the optimiser needs, is the backward pass through it.
Practical PAC-Bayes (2021, eq. 13) takes random weights instead, vᵀGv or vᵀHv.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from common.optim.second_derivatives import CheapSecondDerivatives

Of = Literal["ggn", "hessian"]
Probe = Literal["outputs", "weights"]


@dataclass(frozen=True)
class TracePenalty:
    """How Tr G or Tr H of a mini-batch is estimated, so that the estimate can be differentiated.

    Attributes:
        of: "ggn", never negative; or "hessian", which negative curvature makes negative.
        probe: "outputs", random signs for each output of each example (GGN alone); or "weights", random signs in the
            space of the weights, the document's estimator. Both are unbiased with a variance of at most 2 ‖G‖²_F.
        draws: probes that are averaged.
        examples: size of the sub-batch that the trace is estimated on, a random part of the mini-batch in a pass of
            its own, with its own batch statistics and without touching running statistics; None for the whole
            mini-batch, whose forward pass the loss and the probes of the outputs then share.

    Raises:
        ValueError: probes of outputs for the Hessian, or fewer than one draw or example.

    Example:
        >>> model = nn.Linear(2, 2, bias=False)
        >>> penalty = TracePenalty()
        >>> images, labels = torch.eye(2), torch.tensor([0, 1])
        >>> loss, trace = penalty(model, images, labels, torch.Generator().manual_seed(0))
        >>> (loss + 1e-4 * trace).backward()
        >>> bool(trace > 0), model.weight.grad.shape
        (True, torch.Size([2, 2]))
    """

    of: Of = "ggn"
    probe: Probe = "outputs"
    draws: int = 1
    examples: int | None = None

    def __post_init__(self) -> None:
        if self.of == "hessian" and self.probe == "outputs":
            raise ValueError("the Hessian's trace takes probes of the weights; those of outputs give Tr G.")
        if self.draws < 1 or (self.examples is not None and self.examples < 1):
            raise ValueError("draws and examples must be 1 or more.")

    def __call__(
        self, model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, source: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean cross-entropy of a mini-batch and the estimate of the trace, both with their graphs.

        Args:
            model: inputs [n, …] to logits [n, classes]; in training mode batch statistics are differentiated too.
            inputs, targets: [n, …] and int64 [n].
            source: CPU generator of the probes and of the sub-batch.
        """
        if self.examples is None or self.examples >= len(targets):
            with self._derivatives():
                logits = model(inputs)
            return functional.cross_entropy(logits, targets), self._trace(model, inputs, targets, logits, source)
        loss = functional.cross_entropy(model(inputs), targets)
        chosen = torch.randperm(len(targets), generator=source)[: self.examples].to(inputs.device)
        with _untouched_statistics(model):
            return loss, self._trace(model, inputs[chosen], targets[chosen], None, source)

    def _derivatives(self) -> AbstractContextManager[object]:
        """Probes of the outputs need second derivatives, those of the weights third ones."""
        return CheapSecondDerivatives() if self.probe == "outputs" else nullcontext()

    def _trace(
        self,
        model: nn.Module,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        logits: torch.Tensor | None,
        source: torch.Generator,
    ) -> torch.Tensor:
        if self.probe == "outputs":
            if logits is None:
                with self._derivatives():
                    logits = model(inputs)
            values = _by_outputs(model, logits, self.draws, source)
        else:
            form = _ggn_quadratic_form if self.of == "ggn" else _hessian_quadratic_form
            with _composed_normalisation(model):
                values = [form(model, inputs, targets, source) for _ in range(self.draws)]
        return torch.stack(values).mean()


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that the trace runs over: those that require a gradient."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _by_outputs(model: nn.Module, logits: torch.Tensor, draws: int, source: torch.Generator) -> list[torch.Tensor]:
    """‖N^{-1/2} Σ Jₙᵀ Sₙ zₙ‖² for random signs z, with S = diag √p − p √pᵀ of the cross-entropy."""
    logarithms = logits.log_softmax(1)
    shares, roots = logarithms.exp(), (logarithms / 2).exp()
    parameters = list(trainable(model).values())
    values = []
    for _ in range(draws):
        weighted = roots * _signs(logits.shape, source, logits)
        cotangent = (weighted - shares * weighted.sum(1, keepdim=True)) * len(logits) ** -0.5
        slopes = torch.autograd.grad(logits, parameters, cotangent, create_graph=True, materialize_grads=True)
        values.append(torch.stack([slope.square().sum() for slope in slopes]).sum())
    return values


def _ggn_quadratic_form(
    model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, source: torch.Generator
) -> torch.Tensor:
    """vᵀGv = 1/N Σ (Jₙv)ᵀ Λₙ (Jₙv) for random signs v; Jv is the derivative by u of Jᵀu."""
    parameters = list(trainable(model).values())
    logits = model(inputs)
    cotangent = torch.zeros_like(logits, requires_grad=True)
    pulled = torch.autograd.grad(logits, parameters, cotangent, create_graph=True, materialize_grads=True)
    directions = [_signs(parameter.shape, source, parameter) for parameter in parameters]
    along = torch.stack([(slope * way).sum() for slope, way in zip(pulled, directions, strict=True)]).sum()
    (pushed,) = torch.autograd.grad(along, cotangent, create_graph=True)
    shares = logits.softmax(1)
    centred = pushed - (shares * pushed).sum(1, keepdim=True)
    form: torch.Tensor = (shares * centred.square()).sum(1).mean()
    return form


def _hessian_quadratic_form(
    model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, source: torch.Generator
) -> torch.Tensor:
    """vᵀHv for random signs v, by differentiating the gradient along v."""
    parameters = list(trainable(model).values())
    loss = functional.cross_entropy(model(inputs), targets)
    slopes = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
    directions = [_signs(parameter.shape, source, parameter) for parameter in parameters]
    along = torch.stack([(slope * way).sum() for slope, way in zip(slopes, directions, strict=True)]).sum()
    products = torch.autograd.grad(along, parameters, create_graph=True, materialize_grads=True)
    return torch.stack([(product * way).sum() for product, way in zip(products, directions, strict=True)]).sum()


def _signs(shape: torch.Size, source: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, 2, tuple(shape), generator=source).to(like).mul_(2).sub_(1)


@contextmanager
def _untouched_statistics(model: nn.Module) -> Iterator[None]:
    """Within: normalisation layers use the batch's statistics where they did, and their running ones stay."""
    changed = [
        module for module in model.modules() if getattr(module, "track_running_stats", False) and module.training
    ]
    for module in changed:
        module.track_running_stats = False  # type: ignore[assignment]
    try:
        yield
    finally:
        for module in changed:
            module.track_running_stats = True  # type: ignore[assignment]


@contextmanager
def _composed_normalisation(model: nn.Module) -> Iterator[None]:
    """Within: batch normalisation by batch statistics is composed of elementary operations; running ones stay.

    Probes of the weights need third derivatives, and those of torch's own batch normalisation in training mode are
    silently wrong (torch 2.13): its second derivative is differentiated as if parts of it were constant.
    """
    changed = [
        module
        for module in model.modules()
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)
    ]
    for module in changed:
        module.forward = partial(_by_batch_statistics, module)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def _by_batch_statistics(layer: _BatchNorm, inputs: torch.Tensor) -> torch.Tensor:
    axes = [axis for axis in range(inputs.ndim) if axis != 1]
    centred = inputs - inputs.mean(axes, keepdim=True)
    scaled = centred * (centred.square().mean(axes, keepdim=True) + layer.eps).rsqrt()
    if not layer.affine:
        return scaled
    shape = [-1 if axis == 1 else 1 for axis in range(inputs.ndim)]
    return scaled * layer.weight.view(shape) + layer.bias.view(shape)
