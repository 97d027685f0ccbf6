"""Products with the GGN and with operators of the same form, Σ Jₙᵀ Mₙ Jₙ: Fisher matrices and the gradient noise.

Jv is the derivative by u of the recorded Jᵀu, two thirds of a gradient; Jᵀ is a backward pass, two thirds.

In networks of many convolutions Jv is a forward derivative instead, one gradient: torch 2.13, when it differentiates
the backward pass of a convolution, also computes the derivatives by its input and its weight, which nobody asked for
(a product of ResNet-20 takes 1.6 instead of 2.6 gradients so; with two convolutions and pooling 1.9 instead of 1.3).
Custom autograd functions have a backward pass, but seldom a forward derivative: with them it is left alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

import torch

from common.hessian.choices import Of, one_of
from common.hessian.chunks import Chunk
from common.hessian.forward_mode import forward_derivative
from common.hessian.ggn_check import Push, way_to_push
from common.hessian.problem import Problem
from common.hessian.products import MEMORY_LIMIT, Hessian, LinearOperator, RecordedGradient, recorded_gradient
from common.hessian.random import generator

Middle = Callable[[torch.Tensor], torch.Tensor]
"""u ↦ M u for the outputs of a chunk [n, …], each example on its own."""

FEW_CONVOLUTIONS = 3
"""Convolutions up to which Jv is the derivative of Jᵀu."""


@dataclass(frozen=True)
class _Pass:
    """What is kept of a chunk: the outputs with their graph, the middle factor, and Jᵀu as a function of u, or None
    where Jv is a forward derivative."""

    outputs: torch.Tensor
    middle: Middle
    cotangent: torch.Tensor
    transposed: RecordedGradient | None


class GGN(LinearOperator):
    """The generalised Gauss–Newton matrix, 1/N Σ Jₙᵀ Λₙ Jₙ with Λ the Hessian of the loss in the outputs.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(4, 1), torch.zeros(4, 1)))
        >>> (GGN(problem) @ torch.ones(1)).item()
        2.0
    """

    name = "GGN"

    def __init__(self, problem: Problem, *, memory_limit: int = MEMORY_LIMIT) -> None:
        super().__init__(problem, memory_limit=memory_limit)
        self._checked = False
        self._forwards = problem.convolutions > FEW_CONVOLUTIONS and not problem.custom_functions
        self._set_costs()

    def _set_costs(self) -> None:
        if self._forwards:
            self.record_cost, self.kept_cost, self.quadratic_form_cost = 1 / 3, 5 / 3, 1.0

    def _verify(self) -> None:
        if self._checked:
            return
        ways: dict[str, Push] = {"forward": _forward_push, "transposed": _transposed_push}
        preferred = dict(ways.items() if self._forwards else reversed(ways.items()))
        self._forwards = way_to_push(self.problem, preferred) == "forward"
        self._checked = True
        self._set_costs()

    def _record(self, chunk: Chunk) -> _Pass:
        outputs = self.problem.outputs(chunk.inputs)
        cotangent = torch.zeros_like(outputs, requires_grad=True)
        transposed = None if self._forwards else recorded_gradient(outputs, self.problem.parameters, cotangent)
        return _Pass(outputs, self._middle(outputs.detach(), chunk), cotangent, transposed)

    def _apply(self, state: _Pass, chunk: Chunk, vector: list[torch.Tensor]) -> list[torch.Tensor] | None:
        pushed = self._pushed(state, chunk, vector)
        return None if pushed is None else self._pulled(state.outputs, state.middle(pushed))

    def _pushed(self, state: _Pass, chunk: Chunk, vector: list[torch.Tensor]) -> torch.Tensor | None:
        """J v."""
        if state.transposed is None:
            return forward_derivative(self.problem, chunk, vector)
        found = state.transposed.derivative([state.cotangent], vector)
        return None if found is None else found[0]

    def _pulled(self, outputs: torch.Tensor, cotangent: torch.Tensor) -> list[torch.Tensor]:
        """Jᵀ u."""
        return list(
            torch.autograd.grad(outputs, self.problem.parameters, cotangent, retain_graph=True, materialize_grads=True)
        )

    def quadratic_form(self, vector: torch.Tensor) -> float:
        self._refresh()
        parts, total, before = self.problem.split(vector), 0.0, self.cost
        with self.problem.only_selected():
            for chunk, weight in zip(self.problem.chunks, self._weights, strict=True):
                state = self._state(chunk, weight)
                pushed = self._pushed(state, chunk, parts)
                if pushed is not None:
                    total += float((pushed.double() * state.middle(pushed).double()).sum())
        self._settle(before)
        self.cost += self.quadratic_form_cost
        return self.problem.completed(total) * self.problem.scale

    def weighted_gradient(self, weights: torch.Tensor) -> torch.Tensor:
        """Σ_n weightₙ gₙ [P], gₙ the gradient of example n; weights [N]. Costs two thirds of a gradient."""
        self._refresh()
        problem, before = self.problem, self.cost
        total = torch.zeros(problem.size, dtype=problem.dtype, device=problem.device)
        parts = weights[problem.chunks.own].to(total).split(problem.chunks.lengths)
        with problem.only_selected():
            for chunk, part, weight in zip(problem.chunks, parts, self._weights, strict=True):
                outputs = self._state(chunk, weight).outputs
                slope = problem.output_gradient(outputs, chunk.targets)
                total += problem.flat(self._pulled(outputs, slope * part.view(-1, *(1,) * (slope.ndim - 1))))
        self._settle(before)
        self.cost += 2 / 3
        return problem.completed(total)

    def _middle(self, outputs: torch.Tensor, chunk: Chunk) -> Middle:
        return partial(self.problem.curvature.product, outputs, chunk.targets)


def curvature_matrix(problem: Problem, of: Of = "hessian", *, memory_limit: int = MEMORY_LIMIT) -> LinearOperator:
    """The Hessian or the GGN, by name.

    Raises:
        ValueError: another name.

    Example:
        >>> problem = Problem(torch.nn.Linear(1, 1), torch.nn.MSELoss(), (torch.ones(4, 1), torch.zeros(4, 1)))
        >>> curvature_matrix(problem, "ggn").name
        'GGN'
    """
    one_of(of, get_args(Of), "matrix")
    return (Hessian if of == "hessian" else GGN)(problem, memory_limit=memory_limit)


def _forward_push(
    problem: Problem, chunk: Chunk, _: torch.Tensor, vector: Sequence[torch.Tensor]
) -> torch.Tensor | None:
    return forward_derivative(problem, chunk, vector)


def _transposed_push(
    problem: Problem, _: Chunk, outputs: torch.Tensor, vector: Sequence[torch.Tensor]
) -> torch.Tensor | None:
    cotangent = torch.zeros_like(outputs, requires_grad=True)
    found = recorded_gradient(outputs, problem.parameters, cotangent).derivative([cotangent], vector)
    return None if found is None else found[0]


class EmpiricalFisher(GGN):
    """1/N Σ gₙ gₙᵀ: the uncentred second moment of the gradients of the examples.

    For a sum loss, Σ gₙ gₙᵀ.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.fill_(2.0)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(4, 1), torch.ones(4, 1)))
        >>> (EmpiricalFisher(problem) @ torch.ones(1)).item()
        4.0
    """

    name = "empirical Fisher matrix"

    def _middle(self, outputs: torch.Tensor, chunk: Chunk) -> Middle:
        slopes = self._slopes(outputs, chunk)
        return lambda pushed: slopes * (slopes * pushed).flatten(1).sum(1).view(-1, *(1,) * (slopes.ndim - 1))

    def _slopes(self, outputs: torch.Tensor, chunk: Chunk) -> torch.Tensor:
        """∂ℓₙ/∂outputsₙ."""
        return self.problem.output_gradient(outputs, chunk.targets)


class MonteCarloFisher(EmpiricalFisher):
    """1/N Σ gₙ gₙᵀ with one target an example drawn from the model: its mean over draws is the GGN.

    The draw is fixed by `seed`, so this is one symmetric matrix.

    Raises:
        ValueError: the loss is not a known negative log-likelihood.

    Example:
        >>> model = torch.nn.Linear(1, 2)
        >>> problem = Problem(model, torch.nn.CrossEntropyLoss(), (torch.ones(4, 1), torch.zeros(4).long()))
        >>> (MonteCarloFisher(problem, seed=1) @ torch.ones(4)).shape
        torch.Size([4])
    """

    name = "Monte Carlo Fisher matrix"

    def __init__(self, problem: Problem, *, seed: int = 0, memory_limit: int = MEMORY_LIMIT) -> None:
        super().__init__(problem, memory_limit=memory_limit)
        self.seed = seed

    def _slopes(self, outputs: torch.Tensor, chunk: Chunk) -> torch.Tensor:
        return self.problem.curvature.sampled_gradient(outputs, generator(self.seed * 1_000_003 + chunk.index))


class NoiseCovariance(EmpiricalFisher):
    """Σ = 1/N Σ (gₙ − ḡ)(gₙ − ḡ)ᵀ, ḡ the mean of the gₙ: covariance of the gradient of one random example.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(4, 1), torch.ones(4, 1)))
        >>> (NoiseCovariance(problem) @ torch.ones(1)).item()
        0.0
    """

    name = "gradient-noise covariance"

    def __init__(self, problem: Problem, *, memory_limit: int = MEMORY_LIMIT) -> None:
        super().__init__(problem, memory_limit=memory_limit)
        problem.require_mean()
        self._moved()

    def _moved(self) -> None:
        self._mean = self.problem.gradient()
        self.cost += 1.0

    def _finished(self, product: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return product - self._mean * (self._mean @ vector)

    def quadratic_form(self, vector: torch.Tensor) -> float:
        return super().quadratic_form(vector) - float(self._mean.double() @ vector.double()) ** 2
