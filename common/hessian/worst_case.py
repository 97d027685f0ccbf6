"""The largest loss in a neighbourhood of the weights: λ₁ at a minimum (Wu 2025), and ε-sharpness (Keskar et al. 2017).

λ₁ = max_{‖ε‖ ≤ r} 2 (L(w + ε) − L(w))/r² + O(r) at a minimum
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from common.hessian.ascent import Maximum, maximise
from common.hessian.noise_stability import require_positive
from common.hessian.problem import Problem
from common.hessian.random import generator, normal


@dataclass(frozen=True)
class WorstCase:
    """A loss maximised over a neighbourhood by projected gradient ascent, so a lower bound of the true maximum.

    Attributes:
        value: the measure.
        increase: L(w + ε) − L(w) at the best ε found.
        ascent: how the optimiser got there: `status`, `converged`, `iterations`, `evaluations`.
    """

    value: float
    increase: float
    ascent: Maximum

    def __str__(self) -> str:
        return f"{self.value:.6g} ({self.ascent})"


def sharpness_from_perturbations(
    problem: Problem, radius: float, *, iterations: int = 100, seed: int = 0, start: torch.Tensor | None = None
) -> WorstCase:
    """max_{‖ε‖ ≤ r} 2 (L(w + ε) − L(w))/r²: λ₁ up to O(r) at a minimum. Projected gradient ascent.

    Raises:
        ValueError: the radius is not positive.

    Example:
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.zero_()
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2) * 2, torch.zeros(2, 1)))
        >>> round(sharpness_from_perturbations(problem, 0.1).value, 3)
        4.0
    """
    require_positive(radius, "radius")
    first = problem.random_normal(generator(seed)) if start is None else start

    def onto_ball(step: torch.Tensor) -> torch.Tensor:
        factor = radius / max(float(step.norm()), radius)
        return step * factor

    found = maximise(
        _objective(problem, lambda step: step, lambda g: g), radius * first / first.norm(), onto_ball, iterations
    )
    increase = found.value - problem.loss()
    return WorstCase(2 * increase / radius**2, increase, found)


def epsilon_sharpness(
    problem: Problem, epsilon: float = 1e-3, *, dimensions: int | None = 100, iterations: int = 10, seed: int = 0
) -> WorstCase:
    """The ε-sharpness of Keskar et al. (2017, def. 2.1), 100 (max_{y ∈ C_ε} L(w + A y) − L(w))/(1 + L(w)).

    C_ε = {y : |yᵢ| ≤ ε (|(A⁺w)ᵢ| + 1)}; A is P × `dimensions` with normal columns, or the identity for None. The
    paper maximises by 10 iterations of L-BFGS-B, which needs SciPy; here it is projected gradient ascent with
    Barzilai–Borwein steps from a random point inside the box. Either gives a lower bound of the maximum. The result
    says which optimiser it was, how it ended and after how many iterations and evaluations.

    Raises:
        ValueError: ε is not positive.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.zero_()
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> found = epsilon_sharpness(problem, dimensions=None)
        >>> round(found.value, 2), found.ascent.converged, found.ascent.status
        (0.1, True, 'the projected gradient vanished')
    """
    require_positive(epsilon, "ε")
    source, at = generator(seed), problem.vector()
    if dimensions is None:
        into: Callable[[torch.Tensor], torch.Tensor] = lambda y: y  # noqa: E731
        back, coordinates = into, at
    else:
        matrix = normal((problem.size, dimensions), source, at)
        gram, wide = (matrix @ matrix.T, True) if dimensions > problem.size else (matrix.T @ matrix, False)
        coordinates = matrix.T @ torch.linalg.solve(gram, at) if wide else torch.linalg.solve(gram, matrix.T @ at)
        into, back = (lambda y: matrix @ y), (lambda g: matrix.T @ g)
    sides = epsilon * (coordinates.abs() + 1)
    start = sides * (2 * torch.rand(sides.shape, generator=source, dtype=sides.dtype).to(sides) - 1) / 10
    found = maximise(
        _objective(problem, into, back), start, lambda y: torch.maximum(torch.minimum(y, sides), -sides), iterations
    )
    here = problem.loss()
    increase = max(found.value - here, 0.0)
    return WorstCase(100 * increase / (1 + here), increase, found)


def _objective(
    problem: Problem, into: Callable[[torch.Tensor], torch.Tensor], back: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], tuple[float, torch.Tensor]]:
    at = problem.vector()

    def value_and_gradient(step: torch.Tensor) -> tuple[float, torch.Tensor]:
        with problem.at(at + into(step)):
            return problem.loss(), back(problem.gradient())

    return value_and_gradient
