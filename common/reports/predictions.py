"""What the runs of an experiment were predicted to take, beside what they took."""

from collections.abc import Iterable
from dataclasses import dataclass

from common.reports.formats import Run


@dataclass(frozen=True)
class Predicted:
    """Seconds predicted for runs in all, with bounds, and on what that rested.

    Attributes:
        missed: "" where what they took lies within the bounds, else whether that was "less" or "more".
    """

    seconds: float
    lower: float
    upper: float
    basis: str
    missed: str


def predicted(runs: Iterable[Run]) -> Predicted | None:
    """The prediction for those runs that were timed and predicted; None where there is none."""
    pairs = [(run.predicted, run.seconds) for run in runs if run.predicted is not None and run.seconds is not None]
    if not pairs:
        return None
    lower, upper = (sum(told.interval[side] for told, _ in pairs) for side in (0, 1))
    taken = sum(seconds for _, seconds in pairs)
    basis = ", ".join(sorted({told.basis for told, _ in pairs}))
    missed = "less" if taken < lower else "more" if taken > upper else ""
    return Predicted(sum(told.seconds for told, _ in pairs), lower, upper, basis, missed)
