"""What each seed says, as a dot plot on the region that the rule accepts."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from common.claims.parts import Part
from common.claims.schema import Accept
from common.claims.verdicts import Verdict
from common.reports.drawing import accepted_text, slug
from common.reports.text import interval_text, number

WIDTH, LEFT, RIGHT, ROW = 380.0, 58.0, 14.0, 15.0
MOST_ROWS = 24
"""Above so many parts, those of equal place are stacked instead of having a row and a label each."""

_BINS, _STEP = 64, 5.0  # of the stacks


@dataclass(frozen=True)
class Axis:
    """Numbers to places from left to right; what lies beyond is drawn at the end."""

    low: float
    high: float

    @classmethod
    def of(cls, shown: Iterable[tuple[Sequence[Part], Verdict]]) -> "Axis":
        """The axis that several drawings can share: it holds dots, intervals, and the region's finite ends."""
        numbers: list[float] = []
        for parts, verdict in shown:
            region = Accept(**verdict.accept).ends if verdict.accept else ()
            measured = (*(verdict.interval or ()), verdict.estimate)
            numbers += [part.value for part in parts] + [value for value in (*measured, *region) if value is not None]
        finite = [value for value in numbers if math.isfinite(value)] or [0.0]
        margin = 0.06 * ((max(finite) - min(finite)) or abs(finite[0]) or 1.0)
        return cls(min(finite) - margin, max(finite) + margin)

    def place(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return LEFT + (inside - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)

    @property
    def ticks(self) -> list[float]:
        """Three to six round numbers."""
        rough = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * size for size in (1, 2, 5, 10) if power * size >= rough)
        return [step * k for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    @property
    def digits(self) -> int:
        """So many significant ones tell one tick from the next."""
        largest = max(abs(self.low), abs(self.high))
        return max(3, 2 + math.ceil(math.log10(largest / (self.high - self.low))))


def dot_plot(parts: Sequence[Part], verdict: Verdict, axis: Axis | None = None) -> Markup:
    """A dot for each part, one row each; below them the estimate with its interval; shaded is what is accepted.

    Hollow dots do not count. The row of a seed without which the verdict would be another is marked. More than
    `MOST_ROWS` parts are stacked where they are equal, without labels.

    Args:
        axis: that several drawings share; by default one for this drawing.
    """
    if not parts:
        return Markup("")
    axis = axis or Axis.of([(parts, verdict)])
    dots, height = _rows(parts, verdict, axis) if len(parts) <= MOST_ROWS else _stacks(parts, axis)
    floor = height + (24.0 if verdict.estimate is not None else 4.0)
    drawn = [
        Markup('<svg class="seeds {}" viewBox="0 0 {:g} {:.0f}" role="img" aria-label="{}">').format(
            slug(verdict.verdict), WIDTH, floor + 20, _label(parts, verdict)
        ),
        *_region(verdict, axis, floor),
        *_scale(axis, floor),
        *dots,
    ]
    if verdict.estimate is not None:
        drawn.append(_estimate(verdict, axis, height + 11))
    return Markup("").join([*drawn, Markup("</svg>")])


def noun(verdict: Verdict, count: int) -> str:
    """What so many parts of a verdict are."""
    return ("setting" if verdict.n is None else "seed") + "s" * (count != 1)


def _label(parts: Sequence[Part], verdict: Verdict) -> str:
    values = [part.value for part in parts if part.counts]
    between = f" from {number(min(values))} to {number(max(values))}" if values else ""
    estimate = f"; estimate {number(verdict.estimate)}" if verdict.estimate is not None else ""
    interval = f", interval {interval_text(verdict.interval)}" if verdict.interval else ""
    counted = f"{len(values)} {noun(verdict, len(values))}{between}"
    return f"{counted}{estimate}{interval}; accepted: {accepted_text(verdict.accept)}"


def _rows(parts: Sequence[Part], verdict: Verdict, axis: Axis) -> tuple[list[Markup], float]:
    turning = {str(seed) for seed in verdict.turns_without}
    drawn = []
    for row, part in enumerate(parts):
        y = ROW * (row + 0.75)
        drawn.append(_dot(part, axis.place(part.value), y))
        name = f"seed {part.label}" if verdict.n is not None else str(row + 1) if len(parts) > 1 else ""
        mark = ' class="turning"' if part.label in turning else ""
        drawn.append(
            Markup('<text{} x="{:g}" y="{:.1f}" text-anchor="end">{}</text>').format(
                Markup(mark), LEFT - 7, y + 3.5, name
            )
        )
    return drawn, ROW * (len(parts) + 0.3)


def _stacks(parts: Sequence[Part], axis: Axis) -> tuple[list[Markup], float]:
    bins: dict[int, list[Part]] = {}
    for part in sorted(parts, key=lambda part: part.value):
        share = (axis.place(part.value) - LEFT) / (WIDTH - LEFT - RIGHT)
        bins.setdefault(round(share * _BINS), []).append(part)
    step = min(_STEP, 160.0 / max(map(len, bins.values())))
    height = 10 + step * max(map(len, bins.values()))
    piled = [(k, part) for stack in bins.values() for k, part in enumerate(stack)]
    return [_dot(part, axis.place(part.value), height - 4 - step * k) for k, part in piled], height


def _dot(part: Part, x: float, y: float) -> Markup:
    text = f"{part.label}: {number(part.value)}" if part.label else number(part.value)
    kind = "" if part.counts else ' class="seen"'
    return Markup('<circle{} cx="{:.1f}" cy="{:.1f}" r="3.4"><title>{}</title></circle>').format(
        Markup(kind), x, y, text
    )


def _region(verdict: Verdict, axis: Axis, floor: float) -> list[Markup]:
    if not verdict.accept:
        return []
    ends = Accept(**verdict.accept).ends
    left, right = (axis.place(end) for end in ends)
    shade = Markup('<rect class="region" x="{:.1f}" y="0" width="{:.1f}" height="{:.1f}"/>')
    upright = Markup('<line class="bound" x1="{0:.1f}" x2="{0:.1f}" y1="0" y2="{1:.1f}"/>')
    bounds = [upright.format(axis.place(end), floor) for end in ends if math.isfinite(end)]
    return [shade.format(left, max(right - left, 0.8), floor), *bounds]


def _scale(axis: Axis, floor: float) -> list[Markup]:
    line = Markup('<line class="axis" x1="{:g}" x2="{:g}" y1="{:.1f}" y2="{:.1f}"/>')
    tick = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>')
    upright = Markup('<line class="axis" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>')
    drawn = [line.format(LEFT, WIDTH - RIGHT, floor, floor)]
    for value in axis.ticks:
        x = axis.place(value)
        drawn += [upright.format(x, floor, floor + 4), tick.format(x, floor + 16, number(value, axis.digits))]
    return drawn


def _estimate(verdict: Verdict, axis: Axis, y: float) -> Markup:
    """The estimate as a diamond and its interval as a bar with caps; an open end goes to the end of the axis."""
    low, high = verdict.interval or (verdict.estimate, verdict.estimate)
    left, right = axis.place(-math.inf if low is None else low), axis.place(math.inf if high is None else high)
    x = axis.place(verdict.estimate or 0.0)
    bar = f"M{left:.1f} {y:.1f}H{right:.1f}M{left:.1f} {y - 4:.1f}V{y + 4:.1f}M{right:.1f} {y - 4:.1f}V{y + 4:.1f}"
    diamond = f"M{x - 5:.1f} {y:.1f}L{x:.1f} {y - 5:.1f}L{x + 5:.1f} {y:.1f}L{x:.1f} {y + 5:.1f}Z"
    drawn = Markup('<path class="bar" d="{}"/><path class="estimate" d="{}"/>').format(bar, diamond)
    return drawn + Markup('<text x="{:g}" y="{:.1f}" text-anchor="end">{}</text>').format(
        LEFT - 7, y + 3.5, "worst" if verdict.n is None else "all"
    )
