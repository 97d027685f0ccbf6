"""Two examples of a problem near its weights, in the model's type and in float64: what derivatives are checked on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import nn

from common.hessian.chunks import Chunks, Inputs, map_inputs
from common.hessian.derivative_check import (
    ASYMMETRY,
    Finding,
    Tensors,
    asymmetry,
    directions,
    examine,
    mismatch,
    padding_rows,
    product,
    recorded,
    rounding_of,
    sizes_of,
    wave,
)
from common.hessian.execution import Execution
from common.hessian.losses import Loss
from common.hessian.random import generator

EXAMPLES = 2
DISPLACED = 0.01
"""How far the weights are moved for the check, over their size."""
SEED = 20_260
PAIRED = 3
"""Directions that are paired in float64."""
IMPRECISE = 0.5
"""Part of a product in single precision that may be rounding."""


class Network(Protocol):
    """What a check needs of a problem."""

    model: nn.Module
    loss_function: Loss
    execution: Execution
    parameters: list[nn.Parameter]
    chunks: Chunks
    dtype: torch.dtype
    device: torch.device

    def first_inputs(self, count: int) -> Inputs: ...

    def outputs(self, inputs: Inputs) -> torch.Tensor: ...

    def summed_loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor: ...

    def only_selected(self) -> AbstractContextManager[None]: ...


class Sample:
    """Two examples of a problem, near its weights, in the model's type and in float64 (where it runs in it).

    The parameters of the model are never touched: others stand in their places for as long as `weights` lasts.

    Attributes:
        kind: the type of the differences.
        sizes: of the parameters.
    """

    def __init__(self, problem: Network) -> None:
        self.problem = problem
        source = generator(SEED)
        parameters = [parameter.detach() for parameter in problem.parameters]
        self.sizes = sizes_of(parameters)
        self._source, self._vectors = source, list[list[torch.Tensor]]()
        self._padding = padding_rows(problem.model, problem.parameters)
        away = directions(parameters, self.sizes, source)
        self._near = [p + DISPLACED * d for p, d in zip(parameters, away, strict=True)]
        self.inputs = problem.first_inputs(EXAMPLES)
        self.targets = problem.chunks.first.targets[:EXAMPLES]
        self.count = len(self.targets)
        self._evaluations = 0.0
        self.doubled_default = False
        self._number: Callable[[Tensors], torch.Tensor] | None = None
        self.seen = torch.empty(0)
        self.kind = self._precise()

    def vectors(self, count: int, kind: torch.dtype) -> list[list[torch.Tensor]]:
        """The first directions."""
        while len(self._vectors) < count:
            parameters = [parameter.detach() for parameter in self.problem.parameters]
            self._vectors.append(directions(parameters, self.sizes, self._source))
            for place, row in self._padding:
                self._vectors[-1][place][row] = 0
        return [[part.to(kind) for part in vector] for vector in self._vectors[:count]]

    def _precise(self) -> torch.dtype:
        """float64 if the model runs in it, else its own type."""
        if self.problem.dtype == torch.float64:
            return self.problem.dtype
        for self.doubled_default in (False, True):
            try:
                self._evaluations += 1 / 3
                if self.outputs(torch.float64).dtype == torch.float64:
                    return torch.float64
            except (RuntimeError, TypeError, ValueError):
                continue
        self.doubled_default = False
        return self.problem.dtype

    @contextmanager
    def weights(self, kind: torch.dtype) -> Iterator[list[nn.Parameter]]:
        """Within: the model is near its weights, and of this type; yields what stands for the problem's parameters."""
        places = _places(self.problem.execution.model)
        near = {id(p): value for p, value in zip(self.problem.parameters, self._near, strict=True)}
        others = {id(t): _like(t, near.get(id(t), t.detach()).to(kind)) for _, _, t in places}
        default = torch.get_default_dtype()
        try:
            self.problem.execution.lent = True
            for module, name, tensor in places:
                setattr(module, name, others[id(tensor)])
            if self.doubled_default and kind == torch.float64:
                torch.set_default_dtype(kind)
            yield [others[id(parameter)] for parameter in self.problem.parameters]
        finally:
            torch.set_default_dtype(default)
            for module, name, tensor in places:
                setattr(module, name, tensor)
            self.problem.execution.lent = False

    def inputs_in(self, kind: torch.dtype) -> Inputs:
        """The examples' inputs in this type."""
        return map_inputs(self.inputs, lambda tensor: tensor.to(kind) if tensor.is_floating_point() else tensor)

    def outputs(self, kind: torch.dtype) -> torch.Tensor:
        """Without graph, near the weights."""
        with torch.no_grad(), self.weights(kind):
            return self.problem.outputs(self.inputs_in(kind))

    def value(self, kind: torch.dtype) -> Callable[[], torch.Tensor]:
        """A smooth function of the outputs at what the parameters hold."""
        inputs = self.inputs_in(kind)

        def number() -> torch.Tensor:
            outputs = self.problem.outputs(inputs)
            if self._number is None:
                self.seen = outputs.detach()
                self._number = wave([self.seen.double()], generator(SEED + 1))
            return self._number([outputs])

        return number

    def first(self) -> Finding:
        """The gradient against differences."""
        vectors = self.vectors(1, self.kind)
        with self.weights(self.kind) as parameters:
            finding = examine(self.value(self.kind), parameters, vectors, self.sizes, order=1)
        self._evaluations += finding.cost
        return finding

    def second(self) -> Finding:
        """Gradient and second derivatives against differences and each other; at the weights if it must be there."""
        finding = self._compared()
        if finding.finite:
            return finding
        self._near, self._number = [p.detach().clone() for p in self.problem.parameters], None
        return self._compared()

    def _compared(self) -> Finding:
        own = self.problem.dtype
        if own == self.kind:
            return self._examined(PAIRED)
        vectors = self.vectors(2, own)
        with self.weights(own) as parameters:
            _, slopes, _ = recorded(self.value(own), parameters)
            products = [product(slopes, parameters, vector) for vector in vectors]
            self._evaluations += 5
            gradient = [slope.detach() for slope in slopes]
        del slopes
        symmetric = asymmetry(products, vectors, rounding_of(own)) <= ASYMMETRY[own]
        finding = self._examined(1 if symmetric else 2, guess=products[0] if symmetric else None)
        if not finding.wrong and finding.product is not products[0]:
            close = mismatch(products[0], finding.product, self.sizes, (IMPRECISE, 0.05), 10 * rounding_of(own)) <= 1
            precise = mismatch(gradient, finding.gradient, self.sizes, (1e-3, 1e-4), 10 * rounding_of(own)) <= 1
            if not close and precise:
                return replace(finding, wrong="second derivative in single precision is not that in double precision")
        return finding

    def _examined(self, count: int, guess: Tensors | None = None) -> Finding:
        vectors = self.vectors(count, self.kind)
        with self.weights(self.kind) as parameters:
            found = examine(self.value(self.kind), parameters, vectors, self.sizes, guess=guess)
        self._evaluations += found.cost
        return found

    def spent(self) -> float:
        """Since the last call, in gradients of eight examples."""
        spent, self._evaluations = self._evaluations * self.count / 8, 0.0
        return spent


def _places(model: nn.Module) -> list[tuple[nn.Module, str, torch.Tensor]]:
    """Module, name and tensor of all parameters and buffers of floating point, tied ones at each of their places."""
    return [
        (module, name, tensor)
        for module in model.modules()
        for own in (module.named_parameters, module.named_buffers)
        for name, tensor in own(recurse=False, remove_duplicate=False)
        if tensor.is_floating_point()
    ]


def _like(tensor: torch.Tensor, value: torch.Tensor) -> Any:
    """The value as a parameter, with the hooks and attributes of this one, or as a buffer."""
    if not isinstance(tensor, nn.Parameter):
        return value
    other = nn.Parameter(value, requires_grad=tensor.requires_grad)
    other.__dict__.update(tensor.__dict__)
    other._backward_hooks = tensor._backward_hooks
    return other
