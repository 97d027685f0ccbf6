"""How the loss changes under random perturbations of the weights, beside what the Hessian predicts.

    E L(w + u) − L(w) = σ²/2 Tr H + O(σ⁴) for u ~ N(0, σ² I) and a smooth network

At kinks (ReLU, max-pooling) the Hessian of the linear pieces lacks the jumps of the slope: what they add is of the same
order σ² (`kinks.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from common.hessian.estimates import Accuracy, Estimate, average
from common.hessian.kinks import has_kinks, kink_term
from common.hessian.problem import Problem
from common.hessian.random import generator
from common.hessian.traces import trace


def require_positive(size: float, name: str) -> None:
    """
    Raises:
        ValueError: a size of perturbations that is not positive.
    """
    if not size > 0:
        raise ValueError(f"{name} = {size}: it must be positive.")


def loss_change(
    problem: Problem,
    direction: Callable[[], torch.Tensor],
    *,
    relative_error: float,
    budget: float,
    seed: int,
    method: str,
    cost: float = 0.0,
) -> Estimate:
    """E (L(w + u) + L(w − u))/2 − L(w) over directions u [P]: antithetic draws, in which odd orders cancel.

    Args:
        direction: one draw of u, of symmetric distribution.
        cost: of drawing it, in gradient-equivalents.
    """
    at = problem.vector()
    here = problem.loss()

    def draw() -> float:
        step = direction()
        values = []
        for sign in (1, -1):
            with problem.at(at + sign * step):
                values.append(problem.loss())
        return (values[0] + values[1]) / 2 - here

    accuracy = Accuracy(relative_error, budget)
    return average(draw, cost=2 / 3 + cost, accuracy=accuracy, seed=seed, method=method)


@dataclass(frozen=True)
class NoiseStability:
    """A perturbed loss and its prediction.

    Attributes:
        sigma: standard deviation of the perturbation of each parameter.
        change: E L(w + u) − L(w), measured.
        curvature: σ²/2 Tr H.
        kinks: what kinks add to leading order; None where there are none, or where the term is not available.
        unavailable: why the kink term is not available; "" if it is, or if there are no kinks.
    """

    sigma: float
    change: Estimate
    curvature: Estimate
    kinks: Estimate | None
    unavailable: str = ""

    @property
    def predicted(self) -> float:
        """Curvature and kinks together; NaN where the kink term is not available."""
        if self.unavailable:
            return math.nan
        return self.curvature.value + (self.kinks.value if self.kinks else 0.0)


def noise_stability(
    problem: Problem, sigma: float, *, relative_error: float = 0.05, budget: float = 1000.0, seed: int = 0
) -> NoiseStability:
    """E L(w + u) − L(w) for u ~ N(0, σ² I), with σ²/2 Tr H and the kink term.

    Where the network has kinks of which the term is not known, the others are given and `unavailable` says so.

    Args:
        budget: in gradient-equivalents, for each of the three.

    Raises:
        ValueError: σ is not positive.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> found = noise_stability(problem, 0.1)
        >>> round(found.predicted, 4), abs(found.change.value - 0.01) < 4 * found.change.standard_error
        (0.01, True)
    """
    require_positive(sigma, "σ")
    source = generator(seed)
    direction, method = lambda: sigma * problem.random_normal(source), "normal noise, antithetic"
    change = loss_change(problem, direction, relative_error=relative_error, budget=budget, seed=seed, method=method)
    found = trace(problem, relative_error=relative_error / 2, budget=budget, seed=seed)
    curvature = found.scaled(sigma**2 / 2, f"σ²/2 · {found.method}")
    if not has_kinks(problem):
        return NoiseStability(sigma, change, curvature, None)
    try:
        kinks = kink_term(problem, sigma, relative_error=relative_error, budget=budget, seed=seed)
    except ValueError as error:
        return NoiseStability(sigma, change, curvature, None, str(error))
    return NoiseStability(sigma, change, curvature, kinks)
