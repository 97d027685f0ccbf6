"""What a whole call takes, from what it had taken when parts of it were done."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

Point = TypeVar("Point")

PARTS = 4
"""The rate is taken over so many parts of what was seen; how they differ is the interval."""
SINGLE_SPREAD = 1.3
"""A single timing may be off by this factor: what equal runs on a shared machine were seen to differ by."""


def of_the_whole(points: Sequence[tuple[float, float]]) -> tuple[float, float, float] | None:
    """Estimate and bounds for a whole call, from (seconds, fraction) pairs; None where the fraction did not grow.

    What had been taken at the first pair is counted once, the rest at the rate between first and last pair.

    Args:
        points: with fractions between 0 and 1, both excluded, in the order of time.
    """
    if len(points) < 2 or points[-1][1] <= points[0][1]:
        return None
    paces = [_pace(a, b) for a, b in pairwise(parted(points)) if b[1] > a[1]]
    start, left = points[0][0], 1.0 - points[0][1]
    overall = _pace(points[0], points[-1])
    lower, upper = min([*paces, overall / SINGLE_SPREAD]), max([*paces, overall * SINGLE_SPREAD])
    return start + left * overall, start + left * lower, start + left * upper


def parted(points: Sequence[Point]) -> list[Point]:
    """The points between `PARTS` parts of them, first and last included."""
    return [points[(len(points) - 1) * part // PARTS] for part in range(PARTS + 1)]


def _pace(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Seconds for the whole at the pace between two points."""
    return (b[0] - a[0]) / (b[1] - a[1])
