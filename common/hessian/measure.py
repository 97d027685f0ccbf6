"""A table of curvature measures of one problem: what `measure` computes and how it prints."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.hessian.estimates import Estimate
from common.hessian.ggn import GGN
from common.hessian.gradient_noise import noise_along_curvature, noise_trace
from common.hessian.lanczos import sharpness
from common.hessian.problem import Problem
from common.hessian.products import Hessian
from common.hessian.rescaled import adaptive_sharpness
from common.hessian.spectrum import frobenius_norm
from common.hessian.stability import non_uniformity
from common.hessian.traces import trace

Measure = Callable[[Problem, float, float, int], Estimate]


def _exactly(value: float, cost: float, method: str) -> Estimate:
    return Estimate(value, passes=1, cost=cost, method=method)


MEASURES: dict[str, tuple[str, Measure]] = {
    "loss": ("L", lambda p, e, b, s: _exactly(p.loss(), 1 / 3, "exact")),
    "gradient_norm": ("‖∇L‖", lambda p, e, b, s: _exactly(float(p.gradient().norm()), 1.0, "exact")),
    "hessian_trace": ("Tr H", lambda p, e, b, s: trace(p, relative_error=e, budget=b, seed=s)),
    "ggn_trace": ("Tr G", lambda p, e, b, s: trace(p, "ggn", relative_error=e, budget=b, seed=s)),
    "sharpness": (
        "λ₁",
        lambda p, e, b, s: sharpness(p, relative_error=e, products=max(2, int(b / 2)), seed=s).estimate,
    ),
    "adaptive_sharpness": (
        "λ₁(DHD)",
        lambda p, e, b, s: adaptive_sharpness(p, relative_error=e, products=max(2, int(b / 2)), seed=s).estimate,
    ),
    "hessian_norm": ("‖H‖_F", lambda p, e, b, s: frobenius_norm(Hessian(p), relative_error=e, budget=b, seed=s)),
    "ggn_norm": ("‖G‖_F", lambda p, e, b, s: frobenius_norm(GGN(p), relative_error=e, budget=b, seed=s)),
    "noise_trace": ("Tr Σ", lambda p, e, b, s: noise_trace(p)),
    "noise_along_curvature": ("Tr ΣG", lambda p, e, b, s: noise_along_curvature(p, relative_error=e, budget=b, seed=s)),
    "non_uniformity": (
        "s",
        lambda p, e, b, s: non_uniformity(p, relative_error=e, products=max(2, int(b / 8)), seed=s),
    ),
}
"""Measures by name: the symbol and the function of (problem, relative error, budget, seed)."""

DEFAULT = ("loss", "gradient_norm", "hessian_trace", "ggn_trace", "sharpness", "noise_trace")


@dataclass(frozen=True)
class Measured:
    """One row: `estimate`, or the sentence that says why there is none."""

    name: str
    symbol: str
    estimate: Estimate | None
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.symbol:8s} {self.estimate if self.estimate is not None else self.problem}"


def measure(
    problem: Problem,
    names: Sequence[str] | str = DEFAULT,
    *,
    relative_error: float = 0.01,
    budget: float = 500.0,
    seed: int = 0,
) -> list[Measured]:
    """Each of the named measures, or the reason why it is not defined here; one never stops the others.

    Args:
        names: among `MEASURES`; one by itself, too.
        relative_error, budget: of each measure; the budget in gradient-equivalents.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> import torch
        >>> problem = Problem(torch.nn.Linear(1, 1), torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> [row] = measure(problem, ["hessian_trace"])
        >>> print(row)
        Tr H     4 (exact GGN trace, 0.7 gradients)
    """
    names = [names] if isinstance(names, str) else names
    rows = []
    for name in names:
        if name not in MEASURES:
            raise ValueError(f"{name!r} is not a measure; known are {', '.join(MEASURES)}.")
    for name in names:
        symbol, function = MEASURES[name]
        try:
            with problem.ranks.together():
                rows.append(Measured(name, symbol, function(problem, relative_error, budget, seed)))
        except ValueError as error:
            rows.append(Measured(name, symbol, None, str(error)))
    return rows
