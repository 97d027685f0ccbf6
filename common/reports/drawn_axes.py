"""Axes read back from the drawing of a figure: what a place of a panel stands for, from its ticks and their labels.

A published figure outlives the records that it was drawn from, so its values come from the drawing alone. An axis
has values only where its labelled ticks leave no doubt about them: categories, two ticks that may stand on a linear
or on a logarithmic axis, and points moved aside of the tick that they belong to have none.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element

FACE, GRID = "#fefefe", "#dbe0e6"  # of common.figures.style, which a site is built without
SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
EXACT = 0.06  # points: places are written to a hundredth, curves to a tenth
BESIDE = 0.45  # of the distance to the next tick: how far categories move their points aside

_PLAIN = re.compile(r"-?\d+(\.\d+)?")
_POWER = re.compile(r"(?:(\d+(?:\.\d+)?)×)?(\d+)\^\{(-?\d+)\}")
_PLACES = re.compile(r"-?\d+(?:\.\d+)?")
_SMALL = {
    "^": dict(zip("0123456789+\N{MINUS SIGN}/Til", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᐟᵀⁱˡ", strict=True)),
    "_": dict(zip("0123456789+\N{MINUS SIGN}inx", "₀₁₂₃₄₅₆₇₈₉₊₋ᵢₙₓ", strict=True)),
}
_NEAREST = 10.0  # points between a tick and the middle of its label, along the axis


@dataclass(frozen=True)
class Axis:
    """The value at a place: `base + slope · place`, in log10 where `log`; places in points of the drawing."""

    log: bool
    base: float
    slope: float
    label: str = ""

    def value(self, place: float) -> float:
        """What the axis shows at a place."""
        at = self.base + self.slope * place
        return 10.0**at if self.log else at


@dataclass(frozen=True)
class Tick:
    """A tick at a place along its axis: its label, if it has one, and whether it is a small one."""

    place: float
    label: str
    minor: bool


@dataclass
class Panel:
    """One system of axes: its clip path, its box (left, top, right, bottom), its ticks, and its axes if known."""

    clip: str
    box: tuple[float, float, float, float]
    ticks: dict[str, list[Tick]] = field(default_factory=lambda: {"x": [], "y": []})
    axes: dict[str, Axis | None] = field(default_factory=lambda: {"x": None, "y": None})
    legend: bool = False

    def holds(self, x: float, y: float) -> bool:
        """Whether a place lies in the box."""
        return self.box[0] <= x <= self.box[2] and self.box[1] <= y <= self.box[3]


def style_of(element: Element) -> dict[str, str]:
    """The style attribute as names and values."""
    return dict(part.split(":", 1) for part in element.get("style", "").split(";") if ":" in part)


def clip_of(element: Element) -> str:
    """The id of the clip path of an element, or nothing."""
    return element.get("clip-path", "").removeprefix("url(#").removesuffix(")")


def is_grid(element: Element) -> bool:
    """Whether a clipped element is a line of the grid."""
    return element.tag == f"{SVG}path" and style_of(element).get("stroke") == GRID


def read_panels(root: Element, marks: Mapping[str, Sequence[Sequence[tuple[float, float]]]]) -> list[Panel]:
    """The panels of a figure in the order of their clip paths, with every axis that its ticks determine.

    Args:
        root: an SVG as `common.figures.export` writes it.
        marks: by clip path, the places of every artist that is drawn there.
    """
    panels = [
        Panel(clip.get("id", ""), (x, y, x + width, y + height))
        for clip in root.iter(f"{SVG}clipPath")
        for x, y, width, height in [[float(clip[0].get(name, "0")) for name in ("x", "y", "width", "height")]]
    ]
    if len({panel.box for panel in panels}) < len(panels):
        return panels  # two systems of axes on one another: whose ticks are whose is not known
    _collect_ticks(root, panels)
    texts = list(_texts(root))
    names = [text for text in texts if not any(_titles(text, panel) for panel in panels)]
    for panel in panels:
        for which in ("x", "y"):
            labelled = panel.ticks[which]
            if not any(tick.label for tick in labelled):
                alike = (other.ticks[which] for other in panels if _shares(panel, other, which))
                labelled = next((ticks for ticks in alike if any(tick.label for tick in ticks)), [])
            axis = fitted(labelled, _factor(panel, which, texts))
            drawn = [
                [place[which == "y"] for place in places if panel.holds(*place)] for places in marks.get(panel.clip, ())
            ]
            if axis is not None and not _moved_aside(labelled, drawn):
                panel.axes[which] = replace(axis, label=_axis_label(panel, which, names))
    for panel in panels:  # a column of panels names its axis below the last
        for which, axis in panel.axes.items():
            if axis is not None and not axis.label:
                named = (other.axes[which] for other in panels if _shares(panel, other, which))
                panel.axes[which] = replace(axis, label=next((n.label for n in named if n is not None and n.label), ""))
    return panels


def fitted(ticks: Sequence[Tick], factor: float | None = 1.0) -> Axis | None:
    """The axis that labelled ticks times `factor` determine; None where a label is no number, or two axes fit."""
    named = [tick for tick in ticks if tick.label]
    values = [number(tick.label) for tick in named]
    known = [value * factor for value in values if value is not None and factor is not None]
    if len(known) < 2 or len(known) < len(values):
        return None
    powers = any("^" in tick.label for tick in named)
    small = [tick.place for tick in ticks if tick.minor and not tick.label]
    linear = None if powers else _line([tick.place for tick in named], known)
    if min(known) <= 0:
        return linear and Axis(False, *linear)
    line = _line([tick.place for tick in named], [math.log10(value) for value in known])
    if line is not None and (_log_spaced(Axis(True, *line), small) if small else len(known) > 2 or powers):
        return Axis(True, *line) if linear is None or small else None
    return Axis(False, *linear) if linear is not None and len(known) > 2 and not small else None


def number(label: str) -> float | None:
    """The number that a tick label says: "−0.5", "2×10^{3}", "2^{5}"; None for anything else."""
    label = label.replace("\N{MINUS SIGN}", "-").strip()
    if _PLAIN.fullmatch(label):
        return float(label)
    power = _POWER.fullmatch(label)
    return float(power[1] or 1) * float(power[2]) ** float(power[3]) if power else None


class _Letter(NamedTuple):
    """A letter, or a few, of a label; `moved` says whether it is raised, "^", or lowered, "_"."""

    place: float
    height: float
    text: str
    moved: str = ""


def flat_text(element: Element) -> str:
    """The text of a label on one line: "10^{3}", "‖A‖_{2}" for letters that are raised or lowered, "√(…)" for roots."""
    spans = list(element.iter(f"{SVG}tspan"))
    if not spans:
        return "".join(element.itertext()).strip()
    letters = _letters(spans)
    for bar in element.iter(f"{SVG}rect"):
        letters = _with_bar(letters, bar)
    return _on_a_line(letters)


def _letters(spans: Sequence[Element]) -> list[_Letter]:
    """The letters of a label's spans; those in smaller type lie above or below the line of the largest."""
    sizes = [float(style_of(span).get("font-size", "10px").removesuffix("px")) for span in spans]
    line = float(spans[sizes.index(max(sizes))].get("y", "0"))
    letters = []
    for span, size in zip(spans, sizes, strict=True):
        places, height = [float(place) for place in span.get("x", "0").split()], float(span.get("y", "0"))
        moved = "" if size > max(sizes) - 0.5 else "^" if height < line else "_"
        text = span.text or ""
        places += places[-1:] * (len(text) - len(places))
        letters += [_Letter(place, height, letter, moved) for place, letter in zip(places, text, strict=False)]
    return letters


def _with_bar(letters: Sequence[_Letter], bar: Element) -> list[_Letter]:
    """The letters with a root's sign around what its bar is over, or a fraction's before what its bar is over."""
    start, height = float(bar.get("x", "0")), float(bar.get("y", "0"))
    end = start + float(bar.get("width", "0")) - 1
    if height < min(letter.height for letter in letters):
        return [*letters, _Letter(start, height, "√("), _Letter(end, height, ")")]

    def aside(letter: _Letter) -> _Letter:
        part = start <= letter.place <= end and letter.text != "/"
        return letter._replace(place=start if letter.height < height else end) if part else letter

    return [*map(aside, letters), _Letter((start + end) / 2, height, "/")]


def _on_a_line(letters: Sequence[_Letter]) -> str:
    """Letters in the order of their places; those moved together stand in braces, lowered before raised ones."""
    written = ""
    for small, run in groupby(sorted(letters, key=lambda letter: letter.place), lambda letter: bool(letter.moved)):
        together = list(run)
        for sign in "_^" if small else ("",):
            text = "".join(letter.text for letter in together if letter.moved == sign)
            written += f"{sign}{{{text}}}" if sign and text else text
    return written.strip()


def readable(text: str) -> str:
    """A label of `flat_text` without braces, in small letters where there are such: "10³", "‖A‖₂"."""

    def small(found: re.Match[str]) -> str:
        letters = _SMALL[found[1]]
        if all(letter in letters for letter in found[2]):
            return "".join(letters[letter] for letter in found[2])
        return found[1] + found[2]

    return re.sub(r"([\^_])\{(.*?)\}", small, text.replace("\N{NO-BREAK SPACE}", " "))


def is_text(element: Element) -> bool:
    """Whether an element is text, or a group that holds one."""
    return element.tag == f"{SVG}text" or (
        element.tag == f"{SVG}g" and any(part.tag == f"{SVG}text" for part in element)
    )


def _line(places: Sequence[float], values: Sequence[float]) -> tuple[float, float] | None:
    """The straight line through all ticks to within their rounding, as value at place 0 and slope."""
    slope = (values[-1] - values[0]) / (places[-1] - places[0]) if places[-1] != places[0] else 0.0
    base = values[0] - slope * places[0]
    if not slope or any(
        abs((value - base) / slope - place) > EXACT for place, value in zip(places, values, strict=True)
    ):
        return None
    return base, slope


def _log_spaced(axis: Axis, small: Sequence[float]) -> bool:
    """Whether small ticks stand at whole multiples of powers of ten, as on no linear axis."""
    heads = [axis.value(place) / 10 ** math.floor(math.log10(axis.value(place))) for place in small]
    error = EXACT * abs(axis.slope) * math.log(10) * 10
    return all(abs(head - round(head)) < error for head in heads)


def _moved_aside(ticks: Sequence[Tick], artists: Iterable[Sequence[float]]) -> bool:
    """Whether marks were moved aside of the ticks that they stand for: at two ticks as far, or spread evenly at one."""
    at = sorted(tick.place for tick in ticks if tick.label)
    near = BESIDE * min(right - left for left, right in pairwise(at))
    seen: list[tuple[float, float, float]] = []  # tick, and how far the outermost marks lie from it
    for places in artists:
        ticks_of = [min(at, key=lambda tick: abs(tick - place)) for place in places]
        off = sorted(place - tick for place, tick in zip(places, ticks_of, strict=True))
        if len(off) < 2 or max(map(abs, off)) > near or max(map(abs, off)) <= EXACT:
            continue
        steps = [right - left for left, right in pairwise(off)]
        constant, even = off[-1] - off[0] < EXACT, max(steps) - min(steps) < EXACT
        if len(set(ticks_of)) > 1:
            if constant:
                return True
            continue
        ends = (ticks_of[0], off[0], off[-1])
        alike = (max(abs(ends[1] - low), abs(ends[2] - high)) < EXACT for tick, low, high in seen if tick != ends[0])
        if any(alike) or (len(off) > 3 and even and not constant):
            return True
        seen.append(ends)
    return False


def _collect_ticks(root: Element, panels: list[Panel]) -> None:
    """Give every panel its ticks: small upright or level strokes at its left and lower edge, each with its label."""
    strokes = {path.get("id", ""): path.get("d", "") for path in root.iter(f"{SVG}path") if "id" in path.attrib}
    children = list(root)
    for number_, element in enumerate(children):
        stroke = re.fullmatch(r"M0 0L(-?[\d.]+) (-?[\d.]+)", strokes.get(element.get(LINK, "")[1:], ""))
        if element.tag != f"{SVG}use" or stroke is None:
            continue
        x, y = float(element.get("x", "0")), float(element.get("y", "0"))
        across, down = float(stroke[1]), float(stroke[2])
        which = "x" if across == 0 and down > 0 else "y"
        following = children[number_ + 1] if number_ + 1 < len(children) else element
        label = flat_text(following) if _labels(following, which, x, y) else ""
        for panel in panels:
            left, top, right, bottom = panel.box
            on_edge = abs(y - bottom) < EXACT if which == "x" else abs(x - left) < EXACT
            inside = left - 1 <= x <= right + 1 if which == "x" else top - 1 <= y <= bottom + 1
            if on_edge and inside and (which == "x" or across < 0):
                panel.ticks[which].append(Tick(x if which == "x" else y, label, max(abs(across), down) < 3))


def _labels(text: Element, which: str, x: float, y: float) -> bool:
    """Whether a text is the label of the tick before it: below it, or to its left."""
    found = next(_texts([text]), None)
    if found is None:
        return False
    _, at_x, at_y, width, turned = found
    if which == "y":
        return not turned and at_x < x and abs(at_y - 3.8 - y) < 3
    return y < at_y < y + 30 and (turned or abs(at_x + width / 2 - x) < _NEAREST)


def _texts(elements: Sequence[Element] | Element) -> Iterator[tuple[str, float, float, float, bool]]:
    """Text, left end, base line, width (0: the place is its middle; about) and whether it is turned, of every text."""
    for element in elements:
        if element.tag == f"{SVG}text":
            anchor = style_of(element).get("text-anchor", "")
            width = {"middle": 0.0, "end": -6.0, "start": 6.0}.get(anchor, 0.0) * len(flat_text(element))
            turned = "rotate" in element.get("transform", "")
            yield flat_text(element), float(element.get("x", "0")), float(element.get("y", "0")), width, turned
        elif is_text(element):
            moved = _PLACES.findall(element.get("transform", ""))
            ends = [float(_PLACES.findall(span.get("x", "0"))[-1]) for span in element.iter(f"{SVG}tspan")]
            if len(moved) >= 2:
                turned = "rotate" in element.get("transform", "")
                yield flat_text(element), float(moved[0]), float(moved[1]), max(ends, default=0.0) + 5, turned


Found = tuple[str, float, float, float, bool]


def _titles(text: Found, panel: Panel) -> bool:
    """Whether a text stands directly on top of a panel, from its left edge or about its middle."""
    left, top, right, _ = panel.box
    _, x, y, width, turned = text
    from_left, about_middle = abs(x - left) < 1, abs(x + width / 2 - (left + right) / 2) < (4 if width else 1)
    return not turned and 0 < top - y < 8 and (from_left or about_middle)


def _axis_label(panel: Panel, which: str, texts: Sequence[Found]) -> str:
    """The name that stands along an axis, or nothing."""
    left, top, right, bottom = panel.box
    found: list[tuple[float, str]] = []  # how far from the axis
    for text, x, y, width, turned in texts:
        near = 4 if width else 1  # of formulas the width is known about
        beside = turned and 0 < left - x < 60 and abs(y - width / 2 - (top + bottom) / 2) < near
        below = not turned and 12 < y - bottom < 60 and abs(x + width / 2 - (left + right) / 2) < near
        if (below if which == "x" else beside) and number(text) is None:
            found.append((y - bottom if which == "x" else left - x, readable(text)))
    return min(found, default=(0.0, ""))[1]


def _factor(panel: Panel, which: str, texts: Sequence[Found]) -> float | None:
    """What all labels of an axis are to be multiplied by, as said at its end ("×10⁴"); None if something is added."""
    left, top, right, bottom = panel.box
    for text, x, y, _, _ in texts:
        at_end = (
            0 < y - bottom < 50 and abs(x - right) < 60 if which == "x" else 0 < top - y < 50 and abs(x - left) < 60
        )
        if at_end and re.match(r"[×+]|1e", text):
            return number(re.sub(r"^1e(\S+)$", r"10^{\1}", text.removeprefix("×")))
    return 1.0


def _shares(panel: Panel, other: Panel, which: Literal["x", "y"] | str) -> bool:
    """Whether another panel of the same column (x) or row (y) has its ticks at the same places."""
    ends = (0, 2) if which == "x" else (1, 3)
    aligned = all(abs(panel.box[end] - other.box[end]) < EXACT for end in ends)
    places = [tick.place for tick in panel.ticks[which]]
    others = [tick.place for tick in other.ticks[which]]
    same = len(places) == len(others) and all(abs(a - b) < EXACT for a, b in zip(places, others, strict=True))
    return panel is not other and aligned and bool(places) and same
