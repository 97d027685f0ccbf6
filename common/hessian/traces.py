"""Traces of the Hessian and of the GGN, whole and by parameter, by the cheapest method that is valid.

exact        Tr G = 1/N Σ_n Σ_c ± ‖Jₙᵀ Sₙc‖²: a backward pass to the activations for each of the C columns of the
             factor S of the loss, and norms of gradients that are never formed. Also Tr H where the network is
             piecewise linear.
output signs Tr G = E ‖Jₙᵀ Sₙ z‖² for random signs z of each example's own: one column instead of C.
sample signs Tr H from a random direction of each example's own (`probes.py`), one pass for all examples.
Hutchinson   vᵀ(A v) with one direction for all examples: any network, any parameters.
P products   Tr H exactly, for the 2P gradients of a product with each unit vector: of few parameters, where draws have
             cost as much and are not as near as was wanted.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import torch

from common.hessian.choices import Of, one_of
from common.hessian.estimates import Accuracy, Estimate, average
from common.hessian.ggn import curvature_matrix
from common.hessian.per_sample import chunk_linearisations, curvature_forms, units
from common.hessian.probes import PASS_COST, hessian_quadratic_forms, numbers_of_others, probed_names
from common.hessian.problem import Problem
from common.hessian.products import MEMORY_LIMIT, Hessian, LinearOperator, diagonal_of, operator_of, require_problem
from common.hessian.random import generator, signs, skip

Method = Literal["auto", "exact", "output signs", "sample signs", "hutchinson"]

EXACT_UP_TO = 8.0
"""Gradient-equivalents that an exact trace may cost before draws are preferred."""
SLACK = 1.5
"""How far the error of a sum of two parts may be beyond the wanted one before more is drawn for it."""
SMALLEST_ROUND = 8.0
"""Gradients that must be left of a budget for another round of draws."""
TOGETHER = 8
"""Examples of which the derivatives for all columns are held at once."""
TINY = 1e-12
"""A relative error that is never reached, where an absolute one is meant."""
MINIMUM_SPREAD = 64
"""Differences between passes that a standard error rests on at least."""


def trace(
    problem: Problem,
    of: Of = "hessian",
    *,
    relative_error: float = 0.01,
    budget: float = 1000.0,
    seed: int = 0,
    method: Method = "auto",
    memory_limit: int = MEMORY_LIMIT,
    beside: float = 0.0,
) -> Estimate:
    """Tr H or Tr G of the selected parameters.

    Args:
        of: "hessian" or "ggn".
        relative_error: wanted standard error over |value|; methods that draw stop when they reach it.
        budget: the most to spend, in gradient-equivalents.
        method: "auto" takes the cheapest that is valid and says why in `reason`; where that draws, and P products are
            within the budget, no more than they cost is drawn before they are made. "exact" takes all columns of the
            loss's factor together for some examples at a time: much faster with convolutions, and equal to rounding to
            the exact trace of "auto", which takes one column after another.
        memory_limit: bytes of graphs that Hutchinson's products may keep.
        beside: a known number that the value will be added to; the relative error is that of the sum.

    Raises:
        ValueError: no such matrix or method, or one that is not valid for this network, with the reason.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> data = torch.ones(4, 3), torch.tensor([0, 1, 1, 0])
        >>> estimate = trace(Problem(model, torch.nn.CrossEntropyLoss(), data))
        >>> estimate.method, estimate.standard_error
        ('exact GGN trace', 0.0)
    """
    require_problem(problem, "trace")
    one_of(of, get_args(Of), "matrix")
    one_of(method, get_args(Method), "method")
    accuracy = Accuracy(relative_error, budget, beside=beside)
    chosen, reason = _choice(problem, of, method)
    if chosen == "exact":
        return _exact(problem, reason, together=method == "exact")
    if chosen == "output signs":
        draws = _output_quadratic_forms(problem, seed)
        cost = 2 / 3 if problem.curvature.has_factor(problem.outputs_per_example) else 1.0
        return _from_samples(problem, draws, cost, accuracy, seed=seed, method=chosen, reason=reason)
    exact = 1 + Hessian.kept_cost * problem.size  # of P products
    if method != "auto" or exact > budget:
        return _drawn(problem, of, chosen, accuracy, seed=seed, reason=reason, memory_limit=memory_limit)
    shorter = replace(accuracy, budget=exact)
    found = _drawn(problem, of, chosen, shorter, seed=seed, reason=reason, memory_limit=memory_limit)
    if found.converged:
        return found
    operator = Hessian(problem, memory_limit=memory_limit)
    value = float(diagonal_of(operator).double().sum())
    why = f"draws at the cost of P products had an error of {found.standard_error:.2g}; {reason}"
    made, cost = found.passes + problem.size, found.cost + operator.cost
    return Estimate(value, passes=made, cost=cost, method="exact trace, P products", reason=why)


def _drawn(
    problem: Problem, of: Of, method: Method, accuracy: Accuracy, *, seed: int, reason: str, memory_limit: int
) -> Estimate:
    """By signs of each example's own, or by Hutchinson's."""
    if method == "sample signs":
        return _sample_signs(problem, accuracy, seed, reason, memory_limit)
    return _Hutchinson(curvature_matrix(problem, of, memory_limit=memory_limit), seed, reason)(accuracy)


def _choice(problem: Problem, of: Of, method: Method) -> tuple[Method, str]:
    """The method to use and why it is valid."""
    structure = problem.structure
    as_ggn = of == "ggn" or structure.piecewise_linear
    probed = bool(probed_names(problem))
    why = "the outputs are piecewise linear in the parameters, so Tr H = Tr G" if of == "hessian" and as_ggn else ""
    if method == "auto":
        if as_ggn and not problem.curvature.has_factor(problem.outputs_per_example):
            return "output signs", f"{problem.outputs_per_example} outputs an example, of a loss not known by name"
        if as_ggn:
            cheap = (1 + problem.outputs_per_example) / 3 <= EXACT_UP_TO or not problem.curvature.convex
            return ("exact" if cheap else "output signs"), why or "the GGN has a factor in the space of outputs"
        if probed:
            return "sample signs", f"not piecewise linear ({structure.reason}); parameters act linearly in layers"
        return "hutchinson", structure.reason
    if method in ("exact", "output signs") and not as_ggn:
        raise ValueError(
            f"{method!r} gives Tr G, which is not Tr H here: {structure.reason}. Tr H is exact in P products, as "
            "`diagonal(problem, method='exact').trace`."
        )
    known = problem.curvature.convex or not problem.curvature.has_factor(problem.outputs_per_example)
    if method == "output signs" and not known:
        raise ValueError("'output signs' needs a convex loss known by name: 'exact' is for the others.")
    if method == "sample signs" and (of == "ggn" or not probed):
        raise ValueError(f"'sample signs' is for Tr H of layers with a known rule: {structure.reason or 'use auto'}.")
    return method, why or "asked for"


def _exact(problem: Problem, reason: str, *, together: bool) -> Estimate:
    values, cost = exact_ggn_traces(problem, together=together)
    return Estimate(sum(values), passes=1, cost=cost, method="exact GGN trace", reason=reason)


def exact_ggn_traces(problem: Problem, *, together: bool = False) -> tuple[list[float], float]:
    """Tr of each parameter's diagonal block of the GGN, in the order of `problem.names`, and the cost in gradients.

    Args:
        together: all columns of the factor of the loss at once, `TOGETHER` examples at a time, not one by one.
    """
    if not problem.curvature.has_factor(problem.outputs_per_example):
        return _exact_without_factor(problem)
    totals = [0.0] * len(problem.names)
    columns = 0
    for chunk, at in chunk_linearisations(problem, TOGETHER if together else None):
        curvature = problem.curvature
        factor, sign = (curvature.thin_factor if together else curvature.factor)(at.outputs, chunk.targets)
        columns = factor.shape[2]
        if together:
            totals = [a + b for a, b in zip(totals, at.factor_norms(factor, sign), strict=True)]
            continue
        for column in range(columns):
            for place, norms in enumerate(at.norms(factor[:, :, column])):
                totals[place] += float((norms * sign[:, column]).double().sum())
    return [total * problem.scale for total in problem.completed(totals)], (1 + columns) / 3


def _exact_without_factor(problem: Problem) -> tuple[list[float], float]:
    """The same from products with Λ alone, for outputs too many to form it: two norms an output instead of one."""
    totals = [0.0] * len(problem.names)
    for chunk, at in chunk_linearisations(problem):
        for unit in units(at.outputs):
            for number, form in enumerate(curvature_forms(problem, chunk, at, unit)):
                totals[number] += float(form.double().sum())
    return [total * problem.scale for total in problem.completed(totals)], (1 + 2 * problem.outputs_per_example) / 3


def _output_quadratic_forms(problem: Problem, seed: int) -> Callable[[], Iterator[torch.Tensor]]:
    source = generator(seed)
    factored = problem.curvature.has_factor(problem.outputs_per_example)

    def one_pass() -> Iterator[torch.Tensor]:
        for chunk, at in chunk_linearisations(problem):
            if not factored:
                vectors = problem.chunks.draw(chunk, lambda n: signs((n, *at.outputs.shape[1:]), source, at.outputs))  # noqa: B023
                yield torch.stack([form.double() for form in curvature_forms(problem, chunk, at, vectors)]).sum(0)
                continue
            factor, _ = problem.curvature.factor(at.outputs, chunk.targets)
            drawn = problem.chunks.draw(chunk, partial(_signs, source, factor))
            norms = at.norms(torch.einsum("ndr,nr->nd", factor, drawn))
            yield torch.stack([norm.double() for norm in norms]).sum(0)

    return one_pass


def _signs(source: torch.Generator, factor: torch.Tensor, count: int) -> torch.Tensor:
    return signs((count, factor.shape[2]), source, factor)


def _sample_signs(problem: Problem, accuracy: Accuracy, seed: int, reason: str, memory_limit: int) -> Estimate:
    names = probed_names(problem)
    source = generator(seed)
    before, after = numbers_of_others(problem, names)

    def one_pass() -> Iterator[torch.Tensor]:
        skip(source, before)
        for chunk in problem.chunks:
            yield hessian_quadratic_forms(problem, chunk, names, source).double()
        skip(source, after)

    drawn: list[torch.Tensor] = []

    def by_samples(accuracy: Accuracy) -> Estimate:
        return _from_samples(
            problem, one_pass, PASS_COST, accuracy, seed=seed, method="sample signs", reason=reason, draws=drawn
        )

    main = by_samples(accuracy)
    rest = [name for name in problem.names if name not in set(names)]
    if not rest:
        return main
    by_vectors = _Hutchinson(Hessian(problem.restricted(rest), memory_limit=memory_limit), seed + 1)
    # the rest needs only the same absolute error as the main part
    wanted = max(main.standard_error, accuracy.relative_error * abs(main.value + accuracy.beside) / 2)
    other = by_vectors(replace(accuracy, absolute_error=wanted, budget=max(accuracy.budget - main.cost, 1.0)))
    while True:
        value, error = main.value + other.value, (main.standard_error**2 + other.standard_error**2) ** 0.5
        met = error <= SLACK * accuracy.relative_error * abs(value + accuracy.beside)
        passes = main.passes + other.passes
        if met or accuracy.budget - main.cost - other.cost < SMALLEST_ROUND:
            break
        for_main, for_other = _shares(main, other, accuracy)
        main, other = by_samples(for_main), by_vectors(for_other)
        if main.passes + other.passes == passes:
            break
    return Estimate(
        value,
        error,
        samples=main.samples + other.samples,
        passes=main.passes + other.passes,
        cost=main.cost + other.cost,
        seed=seed,
        method="sample signs + Hutchinson",
        converged=met,
        reason=("" if met else f"the budget of {accuracy.budget:g} gradients was spent; ")
        + f"{reason}; Hutchinson for {', '.join(rest)}",
    )


def _shares(one: Estimate, other: Estimate, accuracy: Accuracy) -> tuple[Accuracy, Accuracy]:
    """What two independent parts of a sum should reach so that the sum is as wanted at the least cost.

    With the variance of a part Aᵢ/costᵢ, Σ costᵢ is least where the variances are as √Aᵢ (Neyman's allocation).
    """
    roots = [part.standard_error * math.sqrt(part.cost) for part in (one, other)]
    allowed = accuracy.relative_error * abs(one.value + other.value + accuracy.beside)
    errors = [0.98 * allowed * math.sqrt(root / sum(roots)) for root in roots]
    wanted = [
        max(part.cost, part.cost * (part.standard_error / error) ** 2 if error else part.cost)
        for part, error in zip((one, other), errors, strict=True)
    ]
    more = [1.1 * (cost - part.cost) for part, cost in zip((one, other), wanted, strict=True)]
    left = max(accuracy.budget - one.cost - other.cost, 0.0)
    share = min(1.0, left / sum(more)) if sum(more) else 0.0
    first, second = (
        Accuracy(TINY, part.cost + share * further + TINY, error)
        for part, further, error in zip((one, other), more, errors, strict=True)
    )
    return first, second


def _from_samples(
    problem: Problem,
    one_pass: Callable[[], Iterator[torch.Tensor]],
    cost: float,
    accuracy: Accuracy,
    *,
    seed: int,
    method: str,
    reason: str,
    draws: list[torch.Tensor] | None = None,
) -> Estimate:
    """Mean over passes; the standard error from the differences between passes, example by example.

    Args:
        draws: of passes made before, to which the new ones are added.
    """
    draws = [] if draws is None else draws
    more = 0 if draws else min(1 + -(-MINIMUM_SPREAD // problem.count), 16)
    while True:
        draws += [torch.cat(list(one_pass())) for _ in range(more)]
        of_example = torch.stack(draws)
        count = len(draws)
        value = float(problem.completed(of_example.mean(0).sum())) * problem.scale
        error = float((problem.completed(of_example.var(0).sum()) / count).sqrt()) * problem.scale
        more = accuracy.draws_wanted(value, error, count, cost)
        if more == 0:
            break
    met = accuracy.met_by(value, error)
    if not met:
        reason = f"the budget of {accuracy.budget:g} gradients was spent; {reason}"
    return Estimate(
        value,
        error,
        samples=count * problem.count,
        passes=count,
        cost=count * cost,
        seed=seed,
        method=method,
        converged=met,
        reason=reason,
    )


def hutchinson_trace(
    operator: LinearOperator | Problem,
    *,
    relative_error: float = 0.01,
    budget: float = 1000.0,
    seed: int = 0,
    absolute_error: float = 0.0,
    reason: str = "",
    beside: float = 0.0,
) -> Estimate:
    """Tr A = E vᵀAv with random signs v (Hutchinson 1989), for any linear operator.

    Args:
        operator: a problem stands for its Hessian.
        absolute_error: stop also when the standard error is this small.
        beside: as in `trace`.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> round(hutchinson_trace(Hessian(problem), relative_error=0.1).value)
        4
    """
    return _Hutchinson(operator_of(operator), seed, reason)(Accuracy(relative_error, budget, absolute_error, beside))


class _Hutchinson:
    """Draws of vᵀAv, made until an accuracy is reached; asked again, it goes on from there."""

    def __init__(self, operator: LinearOperator, seed: int, reason: str = "") -> None:
        self.operator, self.seed, self.reason = operator, seed, reason
        self._source, self._before = generator(seed), operator.cost
        self._values: list[float] = []

    def __call__(self, accuracy: Accuracy) -> Estimate:
        estimate = average(
            lambda: self.operator.quadratic_form(self.operator.problem.random_signs(self._source)),
            cost=lambda: self.operator.form_cost,
            accuracy=accuracy,
            seed=self.seed,
            method=f"Hutchinson, {self.operator.name}",
            reason=self.reason,
            values=self._values,
        )
        return replace(estimate, cost=self.operator.cost - self._before)


def traces_by_parameter(
    problem: Problem, of: Of = "hessian", *, relative_error: float = 0.01, budget: float = 1000.0, seed: int = 0
) -> dict[str, Estimate]:
    """Trace of the diagonal block of each parameter tensor, by name.

    Exact in one go for the GGN and for piecewise linear networks; else `trace` of each, the budget shared evenly.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> blocks = traces_by_parameter(Problem(model, torch.nn.MSELoss(), (torch.ones(3, 2), torch.ones(3, 1))))
        >>> round(blocks["weight"].value, 4), round(blocks["bias"].value, 4)
        (4.0, 2.0)
    """
    require_problem(problem, "traces_by_parameter")
    one_of(of, get_args(Of), "matrix")
    if of == "ggn" or problem.structure.piecewise_linear:
        values, cost = exact_ggn_traces(problem)
        share = cost / len(values)
        made = [Estimate(v, passes=1, cost=share, method="exact GGN trace") for v in values]
        return dict(zip(problem.names, made, strict=True))
    found = {}
    for place, name in enumerate(problem.names):
        part = problem.restricted([name])
        found[name] = trace(
            part, of, relative_error=relative_error, budget=budget / len(problem.names), seed=seed + place
        )
    return found
