"""Diagonals of the Hessian and of the GGN, exactly and from random signs.

With Λ = S Sᵀ the curvature of the loss in the outputs, diag G = 1/N Σ_n Σ_c (Jₙᵀ Sₙc)², a backward pass to the
activations for each column c; with random signs z, E (Jᵀ S z)² is the same, a backward pass for each draw.
Where the network is piecewise linear in each parameter, diag H = diag G. Elsewhere diag H takes P products, or
E v ∘ Hv with random signs v, whose entries are noisy and may be negative.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import nn
from torch.nn import functional

from common.hessian.choices import Of, one_of
from common.hessian.estimates import Estimate, widened
from common.hessian.functional_hessian import FunctionalHessian
from common.hessian.per_sample import chunk_linearisations, curvature_squares, units
from common.hessian.problem import Problem
from common.hessian.products import Hessian, diagonal_of, require_problem
from common.hessian.random import generator, signs

Method = Literal["auto", "exact", "monte carlo", "control variate"]

CHUNK = 250
"""Examples a pass takes at once in the functions that take a model and inputs."""
EXACT_UP_TO = 4096
"""Parameters up to which the exact diagonal of the Hessian is preferred (a product each)."""


@dataclass(frozen=True)
class DiagonalEstimate:
    """A diagonal, exact or estimated.

    Attributes:
        diagonal: one tensor a parameter, in the order and shapes of the parameters; unbiased where estimated.
        trace: its sum, with the standard error that the draws cause (the examples are held fixed).
        standard_errors: of each entry, in the shapes of `diagonal`; None where it is exact or was not estimated.
    """

    diagonal: list[torch.Tensor] = field(repr=False)
    trace: Estimate
    standard_errors: list[torch.Tensor] | None = field(default=None, repr=False)


def diagonal(
    problem: Problem,
    of: Of = "hessian",
    *,
    method: Method = "auto",
    draws: int = 16,
    seed: int = 0,
) -> DiagonalEstimate:
    """diag H or diag G.

    Args:
        method: "auto" is exact, except for the Hessian of a network of more than 4,096 parameters that is not
            piecewise linear. "control variate" is diag G exactly and draws of diag(H − G).
        draws: of a Monte Carlo diagonal, at least 4.

    Raises:
        ValueError: no such matrix or method, or fewer than four draws.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> problem = Problem(model, nn.MSELoss(), (torch.eye(2) * 2, torch.ones(2, 1)))
        >>> diagonal(problem).diagonal[0].round(decimals=4).tolist()
        [[4.0, 4.0]]
    """
    require_problem(problem, "diagonal")
    one_of(of, get_args(Of), "matrix")
    one_of(method, get_args(Method), "method")
    if draws < 4:
        raise ValueError(f"{draws} draws: at least 4 are needed for a standard error.")
    as_ggn = of == "ggn" or problem.structure.piecewise_linear
    if method == "auto":
        method = "exact" if as_ggn or problem.size <= EXACT_UP_TO else "monte carlo"
    if method == "exact" or (method == "control variate" and as_ggn):
        return _exact_ggn(problem) if as_ggn else _exact_hessian(problem)
    if method == "control variate":
        known = _exact_ggn(problem)
        draw = _hessian_draw(FunctionalHessian(problem), seed)
        found = _sampled(problem, draw, draws, cost=2.0, seed=seed, method="exact GGN diagonal + v ∘ (H − G)v")
        _add(found.diagonal, known.diagonal)
        value, cost = found.trace.value + known.trace.value, found.trace.cost + known.trace.cost
        return replace(found, trace=replace(found.trace, value=value, cost=cost, passes=draws + 1))
    if as_ggn and problem.curvature.convex:
        draw, cost, name = _ggn_draw(problem, generator(seed)), 2 / 3, "GGN diagonal, output signs"
    elif of == "ggn":
        draw, cost, name = _curvature_draw(problem, generator(seed)), 1.0, "GGN diagonal, output signs"
    else:
        draw, cost, name = _hessian_draw(Hessian(problem), seed), 2.0, "Hessian diagonal, v ∘ Hv"
    return _sampled(problem, draw, draws, cost=cost, seed=seed, method=name)


def _exact_ggn(problem: Problem) -> DiagonalEstimate:
    if not problem.curvature.has_factor(problem.outputs_per_example):
        return _exact_without_factor(problem)
    total = [torch.zeros_like(parameter) for parameter in problem.parameters]
    columns = 0
    for chunk, at in chunk_linearisations(problem):
        factor, sign = problem.curvature.factor(at.outputs, chunk.targets)
        columns = factor.shape[2]
        _add(total, at.factor_squares(factor, sign))
    total = problem.completed(total)
    return _finished([tensor * problem.scale for tensor in total], (1 + columns) / 3, "exact GGN diagonal")


def _exact_without_factor(problem: Problem) -> DiagonalEstimate:
    total = [torch.zeros_like(parameter) for parameter in problem.parameters]
    for chunk, at in chunk_linearisations(problem):
        for unit in units(at.outputs):
            _add(total, curvature_squares(problem, chunk, at, unit))
    total = [tensor * problem.scale for tensor in problem.completed(total)]
    return _finished(total, (1 + 2 * problem.outputs_per_example) / 3, "exact GGN diagonal")


def _exact_hessian(problem: Problem) -> DiagonalEstimate:
    operator = Hessian(problem)
    found = problem.split(diagonal_of(operator))
    return _finished(found, operator.cost, "exact Hessian diagonal, P products")


def _finished(tensors: list[torch.Tensor], cost: float, method: str) -> DiagonalEstimate:
    value = math.fsum(float(tensor.double().sum()) for tensor in tensors)
    return DiagonalEstimate(tensors, Estimate(value, passes=1, cost=cost, method=method))


def _add(total: list[torch.Tensor], more: list[torch.Tensor]) -> None:
    for tensor, other in zip(total, more, strict=True):
        tensor += other


def _ggn_draw(problem: Problem, source: torch.Generator) -> Callable[[], list[torch.Tensor]]:
    def draw() -> list[torch.Tensor]:
        total = [torch.zeros_like(parameter) for parameter in problem.parameters]
        for chunk, at in chunk_linearisations(problem):
            factor, _ = problem.curvature.factor(at.outputs, chunk.targets)
            drawn = problem.chunks.draw(chunk, lambda n: signs((n, factor.shape[2]), source, factor))  # noqa: B023
            _add(total, at.squares(torch.einsum("ndr,nr->nd", factor, drawn)))
        return [tensor * problem.scale for tensor in problem.completed(total)]

    return draw


def _curvature_draw(problem: Problem, source: torch.Generator) -> Callable[[], list[torch.Tensor]]:
    def draw() -> list[torch.Tensor]:
        total = [torch.zeros_like(parameter) for parameter in problem.parameters]
        for chunk, at in chunk_linearisations(problem):
            vectors = problem.chunks.draw(chunk, lambda n: signs((n, *at.outputs.shape[1:]), source, at.outputs))  # noqa: B023
            _add(total, curvature_squares(problem, chunk, at, vectors))
        return [tensor * problem.scale for tensor in problem.completed(total)]

    return draw


def _hessian_draw(operator: Hessian, seed: int) -> Callable[[], list[torch.Tensor]]:
    problem, source = operator.problem, generator(seed)

    def draw() -> list[torch.Tensor]:
        vector = problem.random_signs(source)
        return problem.split(vector * (operator @ vector))

    return draw


def _sampled(
    problem: Problem, draw: Callable[[], list[torch.Tensor]], draws: int, *, cost: float, seed: int, method: str
) -> DiagonalEstimate:
    mean = [torch.zeros_like(parameter) for parameter in problem.parameters]
    spread = [torch.zeros_like(parameter) for parameter in problem.parameters]
    sums = []
    for number in range(1, draws + 1):
        found = draw()
        sums.append(math.fsum(float(tensor.double().sum()) for tensor in found))
        for average, squares, new in zip(mean, spread, found, strict=True):
            step = new - average
            average += step / number
            squares += step * (new - average)
    errors = [(squares / (draws - 1)).sqrt() * widened(1.0, draws) for squares in spread]
    sample = torch.tensor(sums, dtype=torch.float64)
    trace = Estimate(
        float(sample.mean()),
        widened(float(sample.std()), draws),
        samples=draws,
        passes=draws,
        cost=draws * cost,
        seed=seed,
        method=method,
    )
    return DiagonalEstimate(mean, trace, errors)


def ggn_diagonal(model: nn.Module, inputs: torch.Tensor, *, chunk: int = CHUNK) -> list[torch.Tensor]:
    """diag G of the mean cross-entropy, which needs no targets.

    Args:
        model: returns logits [n, C].
        inputs: [n, …].

    Returns:
        One tensor a parameter, in the order and shapes of `model.parameters()`.

    Raises:
        ValueError: what `Problem` refuses.

    Example:
        >>> [tuple(part.shape) for part in ggn_diagonal(nn.Linear(2, 3), torch.ones(4, 2))]
        [(3, 2), (3,)]
    """
    return diagonal(_cross_entropy(model, inputs, chunk), "ggn").diagonal


def estimate_ggn_diagonal(
    model: nn.Module, inputs: torch.Tensor, *, probes: int, generator: torch.Generator, chunk: int = CHUNK
) -> DiagonalEstimate:
    """diag G and Tr G of the mean cross-entropy from `probes` random signs per example and class.

    The standard error of the trace comes from the spread within each example, so two probes are enough.

    Args:
        model, inputs: as for `ggn_diagonal`.
        probes: at least 2.
        generator: a CPU generator.

    Raises:
        ValueError: fewer than two probes, or what `Problem` refuses.

    Example:
        >>> source = torch.Generator().manual_seed(0)
        >>> estimate_ggn_diagonal(nn.Linear(2, 3), torch.ones(4, 2), probes=2, generator=source).trace.samples
        8
    """
    if probes < 2:
        raise ValueError(f"{probes} probes: at least 2 are needed for a standard error.")
    problem = _cross_entropy(model, inputs, chunk)
    total = [torch.zeros_like(parameter) for parameter in problem.parameters]
    mean = spread = 0.0
    for part, at in chunk_linearisations(problem):
        factor, _ = problem.curvature.factor(at.outputs, part.targets)
        sums = []
        for _ in range(probes):
            drawn = signs((len(part), factor.shape[2]), generator, factor)
            norms = at.norms_and_squares(torch.einsum("ndr,nr->nd", factor, drawn), total)
            sums.append(norms.double())
        of_example = torch.stack(sums)
        mean += float(of_example.mean(0).sum())
        spread += float(of_example.var(0).sum())
    count = problem.count
    trace = Estimate(
        mean / count,
        math.sqrt(spread / probes) / count,
        samples=count * probes,
        passes=probes,
        cost=(1 + probes) / 3,
        method="GGN diagonal, output signs",
    )
    return DiagonalEstimate([tensor / (count * probes) for tensor in total], trace)


def _cross_entropy(model: nn.Module, inputs: torch.Tensor, chunk: int) -> Problem:
    targets = torch.zeros(len(inputs), dtype=torch.int64, device=inputs.device)
    names = [name for name, _ in model.named_parameters()]
    return Problem(model, functional.cross_entropy, (inputs, targets), parameters=names, chunk=chunk)
