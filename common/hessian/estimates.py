"""Numbers with their own uncertainty, and the rule that decides how many draws an estimator makes."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

import torch

ROUNDINGS = 8.0
"""Machine epsilons by which a sum over examples may be off: what is left of a difference of two is held against it."""
PILOT = 8
"""Draws before the first look at the spread; fewer leave the standard error too uncertain to plan by."""


@dataclass(frozen=True)
class Estimate:
    """A measured number and how much to trust it.

    Attributes:
        value: the estimate.
        standard_error: estimated standard deviation of `value` over the estimator's own randomness (the examples
            are held fixed); 0 where the method draws nothing.
        samples: number of independent draws behind it; 0 where the method draws nothing.
        passes: number of passes over the data.
        cost: work in units of one gradient over all data, counted as forward passes / 3 (a gradient is three
            forwards); arithmetic that no network pass does (norms, orthogonalisation) is not counted.
        seed: of the draws; None where the method draws nothing.
        method: what was done.
        converged: the wanted accuracy was reached within the budget.
        bound: deterministic half-width, e.g. ‖Hv − λv‖ of an eigenvalue; 0 where there is none.
        reason: why this method, or why it did not converge.

    Example:
        >>> print(Estimate(2.5, 0.1, samples=8, passes=8, cost=16.0, seed=0, method="Hutchinson"))
        2.5 ± 0.1 (Hutchinson, 16.0 gradients)
    """

    value: float
    standard_error: float = 0.0
    _: KW_ONLY
    samples: int = 0
    passes: int = 0
    cost: float = 0.0
    seed: int | None = None
    method: str = ""
    converged: bool = True
    bound: float = 0.0
    reason: str = ""

    def scaled(self, factor: float, method: str) -> "Estimate":
        """`factor` > 0 times this, errors and all."""
        error, bound = factor * self.standard_error, factor * self.bound
        return replace(self, value=factor * self.value, standard_error=error, bound=bound, method=method)

    def __float__(self) -> float:
        return self.value

    @property
    def interval(self) -> tuple[float, float]:
        """Ends between which the true value lies with a probability of 95 %: twice the standard error, and the bound.

        A bound of one side only (of λ₁) is drawn on both.
        """
        half = 1.96 * self.standard_error + self.bound
        return self.value - half, self.value + half

    @property
    def error(self) -> float:
        """Standard error and deterministic bound together: the error bar to draw."""
        return self.standard_error + self.bound

    def __str__(self) -> str:
        digits = 1 - math.floor(math.log10(self.error)) if 0 < self.error < math.inf else 6
        value = round(self.value, digits) if self.error else self.value
        text = f"{value:.6g} ± {self.error:.2g}" if self.error else f"{value:.6g}"
        note = "" if self.converged else ", NOT converged"
        return f"{text} ({self.method}, {self.cost:.1f} gradients{note})"


@dataclass(frozen=True)
class Accuracy:
    """When an estimator stops.

    Attributes:
        relative_error: wanted standard error over |value|.
        budget: the most that may be spent, in gradient-equivalents. The pilot draws are always made.
        absolute_error: a standard error this small is enough whatever the value.
        beside: a known number that the value will be added to; the relative error is that of the sum.
    """

    relative_error: float = 0.01
    budget: float = 1000.0
    absolute_error: float = 0.0
    beside: float = 0.0

    def __post_init__(self) -> None:
        if not self.relative_error > 0 or not self.budget > 0:
            raise ValueError(f"{self}: the relative error and the budget must be positive.")

    def draws_wanted(self, value: float, standard_error: float, draws: int, cost: float) -> int:
        """Further draws towards the wanted accuracy, as many as the budget allows; `cost` is that of one draw."""
        if self.met_by(value, standard_error):
            return 0
        allowed = self._allowed(value)
        wanted = draws * (1.05 * (standard_error / allowed) ** 2 - 1) if allowed else math.inf
        affordable = int(min(self.budget / cost, 1e9)) - draws
        return max(0, min(affordable, math.ceil(min(wanted, 1e9))))

    def met_by(self, value: float, standard_error: float) -> bool:
        """Whether the standard error is as wanted."""
        return standard_error <= self._allowed(value)

    def _allowed(self, value: float) -> float:
        return max(self.relative_error * abs(value + self.beside), self.absolute_error)


def widened(spread: float, draws: int) -> float:
    """Standard error of a mean of `draws` draws with sample standard deviation `spread`.

    Widened by √((k−1)/(k−3)), the standard deviation of Student's t, so that the squared z-score averages one. Of two
    and three draws it has none: they get its quantile at 68 %.
    """
    wider = {2: 1.84, 3: 1.32}.get(draws) or math.sqrt((draws - 1) / (draws - 3))
    return spread / math.sqrt(draws) * wider


def average(
    draw: Callable[[], float],
    *,
    cost: float | Callable[[], float],
    accuracy: Accuracy,
    seed: int,
    method: str,
    reason: str = "",
    values: list[float] | None = None,
) -> Estimate:
    """Mean of independent draws, as many as `accuracy` asks for.

    Args:
        draw: one unbiased draw, which passes over the data once.
        cost: of a draw, in gradient-equivalents; of the next one, if a function, which is asked after the pilot draws.
        seed, method, reason: carried into the estimate.
        values: draws made before, to which the new ones are added.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> one = lambda: 5 + float(torch.randn((), generator=generator))
        >>> estimate = average(one, cost=1.0, accuracy=Accuracy(0.05), seed=0, method="plain mean")
        >>> estimate.converged and abs(estimate.value - 5) < 4 * estimate.standard_error
        True
    """
    values = [] if values is None else values
    values += [draw() for _ in range(PILOT - len(values))]
    while True:
        sample = torch.tensor(values, dtype=torch.float64)
        value, error = float(sample.mean()), widened(float(sample.std()), len(values))
        each = cost() if callable(cost) else cost
        more = accuracy.draws_wanted(value, error, len(values), each)
        if more == 0:
            break
        values += [draw() for _ in range(more)]
    draws, met = len(values), accuracy.met_by(value, error)
    if not met:
        reason = f"the budget of {accuracy.budget:g} gradients was spent; {reason}".rstrip("; ")
    return Estimate(
        value,
        error,
        samples=draws,
        passes=draws,
        cost=draws * each,
        seed=seed,
        method=method,
        converged=met,
        reason=reason,
    )


def square_root(squared: Estimate, method: str) -> Estimate:
    """√ of an estimate, its errors by the delta method (where the value is not positive, their own roots)."""
    value = math.sqrt(max(squared.value, 0.0))
    error, bound = (e / (2 * value) if value else math.sqrt(e) for e in (squared.standard_error, squared.bound))
    return replace(squared, value=value, standard_error=error, bound=bound, method=method)
