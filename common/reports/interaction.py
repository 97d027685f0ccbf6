"""What a page's script needs to show values and toggle arms in a drawing, as one attribute of it.

The script (templates/page.js) counts the elements of the drawing as this module does: artists are the clipped
elements in their order, entries of a legend are children of the drawing.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree

from common.reports.drawn_arms import Arm, Artist, assign, read_arms, read_artists
from common.reports.drawn_axes import Axis, Panel, read_panels, readable
from common.reports.drawn_runs import Row, runs_of


def plot_data(content: str, rows: Sequence[Row] = ()) -> dict[str, Any]:
    """Axes, points, arms and runs of a figure; empty where nothing can be shown or toggled.

    Args:
        content: an SVG as `common.figures.export` writes it.
        rows: the metrics of the figure's experiment, a row a run, where a run has the seed "seed".

    Returns:
        axes: by panel, in the order in which something is drawn there, x and y as [logarithmic, value at place 0,
            change a point, name] or 0 where values are not known.
        points: the artists that have values to be shown, as ranges such as "0-3,7".
        arms: name, first and one after the last element of its entry, artists that look like it alone, artists that
            may be another's too.
        runs, seeds: by artist the numbers of the runs that its points are, and by such number the seed.
    """
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return {}  # a drawing of other making, as it stands
    artists = read_artists(root)
    marks: dict[str, list[list[tuple[float, float]]]] = {}
    for artist in artists:
        marks.setdefault(artist.clip, []).append(artist.points)
    panels = read_panels(root, marks)
    valued = {panel.clip for panel in panels if any(panel.axes.values())}
    arms = read_arms(root, panels)
    assign(artists, arms)
    shown = [artist.index for artist in artists if artist.points and artist.clip in valued]
    named = [_arm(number, arm, artists) for number, arm in enumerate(arms)]
    data: dict[str, Any] = {}
    if shown:
        boxes = {panel.clip: panel for panel in panels}
        data["axes"] = [_axes(boxes[clip]) for clip in marks if clip in boxes]
        data["points"] = ranges(shown)
        data |= _runs(artists, panels, rows)
    if shown or sum(any(arm[3:]) for arm in named) > 1:
        data["arms"] = named
    return data if data.get("arms") or shown else {}


def attribute(data: dict[str, Any]) -> str:
    """Plot data as an attribute of an element, or nothing."""
    if not data:
        return ""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f" data-plot='{text.replace('&', '&amp;').replace(chr(39), '&#39;').replace('<', '&lt;')}'"


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in few characters: "0-3,7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _axes(panel: Panel) -> list[Any]:
    return [_axis(panel.axes[which]) for which in ("x", "y")]


def _axis(axis: Axis | None) -> Any:
    if axis is None:
        return 0
    return [int(axis.log), float(f"{axis.base:.9g}"), float(f"{axis.slope:.7g}"), axis.label]


def _arm(number: int, arm: Arm, artists: Sequence[Artist]) -> list[Any]:
    own = [artist.index for artist in artists if artist.certain and artist.arms == [number]]
    rest = [artist.index for artist in artists if number in artist.arms and artist.index not in own]
    return [readable(arm.name), *arm.children, ranges(own), ranges(rest)]


def _runs(artists: Sequence[Artist], panels: Sequence[Panel], rows: Sequence[Row]) -> dict[str, Any]:
    """The runs that points are, numbered from 0 as they come."""
    if not rows or not all(isinstance(row.get("seed"), int) for row in rows):
        return {}
    found = runs_of(artists, panels, rows)
    numbers = {
        row: number for number, row in enumerate(dict.fromkeys(row for known in found.values() for row in known))
    }
    if not numbers:
        return {}
    return {
        "runs": {index: " ".join(str(numbers[row]) for row in known) for index, known in found.items()},
        "seeds": " ".join(str(rows[row]["seed"]) for row in numbers),
    }
