"""Arms read back from the drawing of a figure: which lines, points and bands a legend names, by how they look."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.etree.ElementTree import Element

from common.reports.drawn_axes import FACE, GRID, LINK, SVG, Panel, clip_of, flat_text, is_grid, is_text, style_of

Place = tuple[float, float]
_STROKE = re.compile(r"M[-\d. ]+L[-\d. ]+")
_STEP = re.compile(r"([MLz])(?:(-?[\d.]+) (-?[\d.]+))?")


@dataclass(frozen=True)
class Look:
    """How an artist is drawn: as "line", "mark" or "area", in which colour, with which dashes or shape of its marks."""

    kind: str
    colour: str
    form: str = ""


@dataclass
class Artist:
    """Something drawn within a panel: its place among the clipped elements, its panel, its look, its points.

    Attributes:
        points: what a reader may ask the values of: the marks, or the vertices of a curve.
        arms: numbers of the arms that may own it; hidden when all of them are.
        certain: whether its look is that of exactly one arm.
        on_line: whether it marks the vertices of the line before it.
    """

    index: int
    clip: str
    look: Look
    points: list[Place]
    arms: list[int] = field(default_factory=list)
    certain: bool = False
    on_line: bool = False


@dataclass
class Arm:
    """An entry of a legend: its name, its looks, its elements among the children of the drawing, and its panel."""

    name: str
    looks: list[Look]
    children: tuple[int, int]
    clip: str | None


def read_artists(root: Element) -> list[Artist]:
    """All that is drawn within panels, but for the grid, in its order."""
    shapes = {path.get("id", ""): path for path in root.iter(f"{SVG}path") if "id" in path.attrib}
    clipped = [element for element in root.iter() if clip_of(element) and not is_grid(element)]
    artists = [
        Artist(index, clip_of(element), look_of(element, shapes), _points(element, shapes))
        for index, element in enumerate(clipped)
    ]
    for line, marks in pairwise(artists):
        alike = (line.clip, line.look.colour) == (marks.clip, marks.look.colour)
        if alike and (line.look.kind, marks.look.kind) == ("line", "mark"):
            marks.on_line = set(marks.points) <= set(line.points)
    return artists


def look_of(element: Element, shapes: dict[str, Element]) -> Look:
    """The look of a path, a mark, or a group of marks."""
    mark = next((part for part in element.iter(f"{SVG}use")), None)
    if mark is None:
        style = style_of(element)
        colour = _colour(style)
        if style.get("fill", "black") == "none":
            return Look("line", colour, style.get("stroke-dasharray", ""))
        return Look("area", colour)
    shape = shapes.get(mark.get(LINK, "")[1:])
    style = ({} if shape is None else style_of(shape)) | style_of(element) | style_of(mark)
    if shape is None or mark.get("x") == "0":
        return Look("area", _colour(style))
    hollow = style.get("fill") in ("none", FACE)
    return Look("mark", _colour(style), shape.get("d", "") + (" hollow" if hollow else ""))


def read_arms(root: Element, panels: Sequence[Panel]) -> list[Arm]:
    """The entries of all legends; `clip` is that of the panel which the legend stands in."""
    shapes = {path.get("id", ""): path for path in root.iter(f"{SVG}path") if "id" in path.attrib}
    arms: list[Arm] = []
    children = list(root)
    within: str | None = None
    start: int | None = None
    for number, element in enumerate(children):
        if _is_frame(element):
            x, y = (float(place) for place in _STEP.findall(element.get("d", ""))[0][1:])
            within = next((panel.clip for panel in panels if panel.holds(x, y)), None)
            start = number + 1
        elif start is not None and is_text(element):
            handles = [part for part in children[start:number] if part.tag != f"{SVG}defs"]
            if handles:
                arms.append(
                    Arm(flat_text(element), [look_of(part, shapes) for part in handles], (start, number), within)
                )
            start = number + 1
        elif clip_of(element):
            start = None
    return arms


def assign(artists: Sequence[Artist], arms: Sequence[Arm]) -> None:
    """Give every artist the arms of its panel's legend, else of the figure's, that look like it."""
    owners = {arm.clip for arm in arms}
    for artist in artists:
        scope = {artist.clip, None} if artist.clip in owners else owners
        known = [number for number, arm in enumerate(arms) if arm.clip in scope]
        exact = [number for number in known if artist.look in arms[number].looks]
        artist.arms = exact or [
            number for number in known if any(look.colour == artist.look.colour for look in arms[number].looks)
        ]
        artist.certain = len(exact) == 1
    for line, marks in pairwise(artists):
        if marks.on_line and marks.certain:
            line.arms, line.certain = marks.arms, True


def _colour(style: dict[str, str]) -> str:
    fill = style.get("fill", "#000000")
    return style.get("stroke", "") if fill in ("none", FACE) else fill


def _is_frame(element: Element) -> bool:
    """Whether an element is the box of a legend."""
    style = style_of(element)
    return not clip_of(element) and style.get("fill") == FACE and style.get("stroke") == GRID


def _points(element: Element, shapes: dict[str, Element]) -> list[Place]:
    if element.tag == f"{SVG}g":
        marks = [use for use in element if use.tag == f"{SVG}use" and use.get("x") != "0"]
        lines = {name for name, shape in shapes.items() if _STROKE.fullmatch(shape.get("d", ""))}  # caps of bars
        return [
            (float(use.get("x", "0")), float(use.get("y", "0"))) for use in marks if use.get(LINK, "")[1:] not in lines
        ]
    steps = _STEP.findall(element.get("d", ""))
    places = [(float(x), float(y)) for letter, x, y in steps if letter != "z"]
    if re.search("[^MLz0-9. -]", element.get("d", "")) or any(letter == "z" for letter, *_ in steps):
        return []
    level = len({y for _, y in places}) == 1 or len({x for x, _ in places}) == 1
    return [] if level and len(places) < 3 else places  # bars of error, means, lines of reference
