"""Curvature estimated from random perturbations of the weights: two identities of Wu 2025, and ρ.

At a minimum, with r the size of the perturbation (Wu 2025, implicit bias lecture):

    Tr H   = E_{ε ~ N(0, r² I)} 2 (L(w + ε) − L(w))/r² + O(r)
    ‖H‖²_F = E_{ε ~ N(0, r² H)} 2 (L(w + ε) − L(w))/r² + O(r)
"""

import math
from functools import partial

import torch

from common.hessian.estimates import Estimate
from common.hessian.lanczos import lanczos
from common.hessian.noise_stability import loss_change, require_positive
from common.hessian.problem import Problem
from common.hessian.products import Hessian
from common.hessian.random import generator, normal


def trace_from_perturbations(
    problem: Problem, radius: float, *, relative_error: float = 0.05, budget: float = 1000.0, seed: int = 0
) -> Estimate:
    """E 2 (L(w + ε) − L(w))/r², ε ~ N(0, r² I): Tr H up to O(r²) for antithetic draws.

    Raises:
        ValueError: the radius is not positive.

    Example:
        >>> problem = Problem(torch.nn.Linear(1, 1), torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> found = trace_from_perturbations(problem, 0.1)
        >>> abs(found.value - 4) < 4 * found.standard_error
        True
    """
    require_positive(radius, "radius")
    source = generator(seed)
    change = loss_change(
        problem,
        lambda: radius * problem.random_normal(source),
        relative_error=relative_error,
        budget=budget,
        seed=seed,
        method="",
    )
    return change.scaled(2 / radius**2, "isotropic perturbations")


def squared_norm_from_perturbations(
    problem: Problem, radius: float, *, relative_error: float = 0.05, budget: float = 1000.0, seed: int = 0
) -> Estimate:
    """E 2 (L(w + ε) − L(w))/r², ε ~ N(0, r² G): Tr(HG), which is ‖H‖²_F where H = G (at interpolation).

    The noise is shaped by the GGN G, which has a factor and is positive semidefinite; H need not be.

    Raises:
        ValueError: the radius is not positive, or the loss is not convex in the outputs.

    Example:
        >>> problem = Problem(torch.nn.Linear(1, 1), torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> found = squared_norm_from_perturbations(problem, 0.1)
        >>> abs(found.value - 16) < 4 * found.standard_error
        True
    """
    require_positive(radius, "radius")
    if not problem.curvature.convex:
        raise ValueError("Curvature-shaped noise needs a convex loss known by name.")
    source = generator(seed)

    def direction() -> torch.Tensor:
        total = torch.zeros(problem.size, dtype=problem.dtype, device=problem.device)
        with problem.only_selected():
            for chunk in problem.chunks:
                outputs = problem.outputs(chunk.inputs)
                factor, _ = problem.curvature.factor(outputs.detach(), chunk.targets)
                drawn = problem.chunks.draw(chunk, lambda n: normal((n, factor.shape[2]), source, factor))  # noqa: B023
                cotangent = torch.einsum("ndr,nr->nd", factor, drawn).view_as(outputs)
                found = torch.autograd.grad(outputs, problem.parameters, cotangent, materialize_grads=True)
                total += problem.flat(found)
        return problem.completed(total) * (radius * math.sqrt(problem.scale))

    change = loss_change(
        problem, direction, relative_error=relative_error, budget=budget, seed=seed, method="", cost=1.0
    )
    return change.scaled(2 / radius**2, "curvature-shaped perturbations")


def hessian_lipschitz(
    problem: Problem, radius: float, *, draws: int = 8, products: int = 20, seed: int = 0
) -> Estimate:
    """ρ: the largest ‖H(w + u) − H(w)‖₂/‖u‖ over random u of length `radius`; a lower bound of the local constant.

    The norm is that of `products` steps of Lanczos. The value is the maximum over draws; the standard error is the
    spread of the draws over √draws and says how far the directions differ.

    Raises:
        ValueError: the radius is not positive, or fewer than two draws.

    Example:
        >>> problem = Problem(torch.nn.Linear(1, 1), torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> hessian_lipschitz(problem, 0.5).value < 1e-5
        True
    """
    if not radius > 0 or draws < 2:
        raise ValueError(f"Radius {radius} and {draws} draws: need a positive radius and at least 2 draws.")
    source, at = generator(seed), problem.vector()
    here, there = Hessian(problem, memory_limit=0), Hessian(problem, memory_limit=0)
    found = []
    for _ in range(draws):
        step = problem.random_normal(source)
        step = step * (radius / step.norm())
        start = problem.random_normal(source)
        difference = partial(_difference, problem, at + step, there, here)
        largest = lanczos(difference, start, 1, which="magnitude", relative_error=0.01, products=products)
        found.append(abs(float(largest.values[0])) / radius)
    sample = torch.tensor(found, dtype=torch.float64)
    spread = float(sample.std()) / draws**0.5
    return Estimate(
        max(found),
        spread,
        samples=draws,
        passes=here.products,
        cost=here.cost + there.cost,
        seed=seed,
        method="Lanczos on the difference of two Hessians",
    )


def _difference(
    problem: Problem, weights: torch.Tensor, there: Hessian, here: Hessian, vector: torch.Tensor
) -> torch.Tensor:
    """(H(weights) − H) v; neither operator keeps a graph."""
    with problem.at(weights):
        product = there @ vector
    return product - here @ vector
