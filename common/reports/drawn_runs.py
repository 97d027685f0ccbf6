"""Which run a drawn point is: the one whose published metric has exactly the value that the point shows."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from common.reports.drawn_arms import Artist
from common.reports.drawn_axes import Axis, Panel

Row = Mapping[str, Any]
Column = list[tuple[float, int]]  # places on an axis, from left to right, with the numbers of their rows
NEAR = 0.012  # points: places of marks are written to a hundredth
_SCALES = (float, math.exp, lambda value: 10.0**value)  # a metric may be the logarithm of what is drawn


def runs_of(artists: Sequence[Artist], panels: Sequence[Panel], rows: Sequence[Row]) -> dict[int, list[int]]:
    """By artist, the number of the row (a run with its seed and metrics) of each of its points.

    Points without such a row, or that two sets of runs fit equally well, are left out.
    """
    found = {}
    drawn = {
        (panel.clip, which): list(_columns(axis, rows))
        for panel in panels
        for which, axis in panel.axes.items()
        if axis is not None
    }
    for artist in artists:
        if artist.look.kind != "mark" or artist.on_line or len(artist.points) < 2:
            continue
        fits = {
            rows_found
            for number, which in enumerate(("x", "y"))
            for column in drawn.get((artist.clip, which), ())
            for rows_found in _fits([point[number] for point in artist.points], column, rows)
        }
        if len(fits) == 1:
            found[artist.index] = list(fits.pop())
    return found


def _columns(axis: Axis, rows: Sequence[Row]) -> Iterator[Column]:
    """Where an axis would show each row, from left to right: once a metric, and once its exponentials."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if _is_number(value) and name != "seed")
    for name in names:
        for scale in _SCALES:
            places = ((_place(axis, scale, row.get(name)), number) for number, row in enumerate(rows))
            yield sorted((place, number) for place, number in places if place is not None)


def _fits(
    places: Sequence[float], column: Sequence[tuple[float, int]], rows: Sequence[Row]
) -> Iterator[tuple[int, ...]]:
    """Choices of one row a place: all runs of an arm in their order, or else the only run that has each value."""
    candidates: list[list[int]] = []
    for place in places:
        first = bisect_left(column, (place - NEAR, -1))
        last = bisect_right(column, (place + NEAR, len(rows)))
        if first == last:
            return
        candidates.append([number for _, number in column[first:last]])
    arms: dict[str, list[int]] = {}
    for _, number in sorted(column, key=lambda known: known[1]):
        arms.setdefault(_arm(rows[number]), []).append(number)
    whole = [arm for arm in arms.values() if len(arm) == len(places)]
    fitting = [arm for arm in whole if all(number in known for number, known in zip(arm, candidates, strict=True))]
    yield from map(tuple, fitting)
    if not fitting and len(places) > 2 and all(len(known) == 1 for known in candidates):
        chosen = tuple(known[0] for known in candidates)
        if len(set(chosen)) == len(chosen):
            yield chosen


def _arm(row: Row) -> str:
    """The name of a run without its seed."""
    return ",".join(part for part in str(row.get("run", "")).split(",") if not part.startswith("seed="))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(axis: Axis, scale: Any, value: Any) -> float | None:
    """Where an axis shows a metric, or its exponential; None if it has no such place."""
    if not _is_number(value) or not math.isfinite(value) or (abs(value) > 700 and scale is not float):
        return None
    try:
        shown = scale(value)
    except OverflowError:
        return None
    if axis.log and shown <= 0:
        return None
    return float(((math.log10(shown) if axis.log else shown) - axis.base) / axis.slope)
