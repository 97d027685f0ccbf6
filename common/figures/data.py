"""The numbers behind a figure: what its axes show, in tidy long form.

One row a plotted point, with the columns `panel, kind, series, x_label, y_label, label, x, y, low, high, value`:
`low` and `high` bound an interval in y, `value` is what a colour encodes, `label` names a category on the x axis.
Columns that hold nothing are left out. A series is named by its artist's label (one that a legend does not show, too),
else by the entry of the legend that has its colour; where it belongs to one seed, by that as well.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from matplotlib.lines import AxLine, Line2D
from matplotlib.patches import StepPatch

from common.figures.compaction import OF_SEED

COLUMNS = ("panel", "kind", "series", "x_label", "y_label", "label", "x", "y", "low", "high", "value")
_ATTACHED = "_plotted_data"
_OF_MATPLOTLIB = re.compile(r"_(child\d+|nolegend_|container\d*)?")  # labels that name nothing


def attach_data(figure: Figure, frame: pd.DataFrame) -> None:
    """Make `frame` the CSV of `figure`, in place of what its axes show (3-D plots, derived drawings)."""
    setattr(figure, _ATTACHED, frame.copy())


def plotted_data(figure: Figure) -> pd.DataFrame:
    """The frame that was attached to `figure`, else lines, bands, bars, points, images and contours."""
    attached = getattr(figure, _ATTACHED, None)
    if attached is not None:
        return pd.DataFrame(attached)
    blocks = []
    for number, axes in enumerate((a for a in all_axes(figure) if a.get_label() != "<colorbar>"), start=1):
        common = {
            "panel": axes.get_title("left") or axes.get_title() or f"panel {number}",
            "x_label": axes.get_xlabel(),
            "y_label": axes.get_ylabel(),
        }
        named = _by_legend(axes)
        for artist, series in _series(axes):
            by_colour = {} if series["kind"] == "reference" else named
            block = pd.DataFrame(series | {"series": _name(artist, by_colour) or series["series"]})
            if len(block):
                blocks.append(block.assign(**common))
    if not blocks:
        return pd.DataFrame(columns=list(COLUMNS))
    frame = pd.concat(blocks, ignore_index=True).reindex(columns=list(COLUMNS))
    frame = frame.loc[:, [name for name in COLUMNS if name in ("panel", "kind", "series") or frame[name].notna().any()]]
    return frame.drop(columns=[name for name in ("x_label", "y_label") if name in frame and not frame[name].any()])


def all_axes(figure: Figure) -> Iterator[Axes]:
    """The axes of a figure, and those that lie within them."""
    for axes in figure.axes:
        yield axes
        yield from (child for child in axes.child_axes if isinstance(child, Axes))


def _series(axes: Axes) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Each artist with its columns; containers first, since their members are lines and patches of their own."""
    owned: set[int] = set()
    for container in axes.containers:
        owned.update(id(artist) for artist in _members(container))
        if isinstance(container, BarContainer):
            yield container, _bars(container, axes)
        elif isinstance(container, ErrorbarContainer):
            yield container, _error_bars(container, axes)
    number = 0
    for line in axes.lines:
        if id(line) not in owned:
            number += 1
            yield line, _line(line, axes, number)
    for image in axes.images:
        yield image, _image(image)
    for collection in axes.collections:
        if id(collection) not in owned:
            yield from ((collection, columns) for columns in _collection(collection, axes))
    for patch in axes.patches:
        if isinstance(patch, StepPatch):
            values, edges, _ = patch.get_data()
            yield patch, _block("steps", "steps", x=edges[:-1], y=values)


def _name(artist: Any, by_colour: dict[str, str]) -> str:
    """What the label of an artist calls it, or its colour, and its seed; empty where nothing names it."""
    label = " ".join(str(artist.get_label() or "").split())
    if _OF_MATPLOTLIB.fullmatch(label):
        label = by_colour.get(_colour(artist) or "", "")
    gid = str(getattr(artist, "get_gid", str)() or "")
    seed = f"seed {gid.removeprefix(OF_SEED)}" if gid.startswith(OF_SEED) else ""
    return ", ".join(part for part in (label.removeprefix("_"), seed) if part)


def _by_legend(axes: Axes) -> dict[str, str]:
    """The entries of the legend of a panel, else of its figure, by their colour; without colours of two entries."""
    legends = [axes.get_legend()] if axes.get_legend() else list(getattr(axes.figure, "legends", []))
    names: dict[str, str] = {}
    twice: set[str] = set()
    for legend in (legend for legend in legends if isinstance(legend, Legend)):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            colour = _colour(handle)
            if colour and names.setdefault(colour, text.get_text()) != text.get_text():
                twice.add(colour)
    return {colour: name for colour, name in names.items() if colour not in twice}


def _colour(artist: Any) -> str | None:
    """The one colour of an artist without its transparency, as `#rrggbb`; None where it has several, or none."""
    if isinstance(artist, ErrorbarContainer):
        line, _, bars = artist
        artist = line if line is not None else bars[0]
    if isinstance(artist, Line2D):
        return to_hex(artist.get_color())
    if isinstance(artist, Collection) and artist.get_array() is None:
        faces: Any = artist.get_edgecolor() if isinstance(artist, LineCollection) else artist.get_facecolor()
        shades = {to_hex(face) for face in faces}
        return shades.pop() if len(shades) == 1 else None
    return None


def _members(container: Any) -> Iterator[Any]:
    for item in container:
        if isinstance(item, tuple | list):
            yield from item
        elif item is not None:
            yield item


def _block(kind: str, series: str, **columns: Any) -> dict[str, Any]:
    """The columns of an artist; `series` is its name where neither it nor a legend has one."""
    return {"kind": kind, "series": series, **columns}


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(np.ma.filled(np.ma.asarray(values, dtype=float), np.nan), dtype=float).ravel()


def _categories(axes: Axes, x: np.ndarray) -> dict[str, Any]:
    """Names of the x values on an axis of categories or with labels at fixed ticks; else nothing."""
    axis: Any = axes.xaxis
    mapping = getattr(axis.get_units(), "_mapping", None)
    names = {float(place): name for name, place in mapping.items()} if mapping else {}
    if not names and type(axes.xaxis.get_major_formatter()).__name__ == "FixedFormatter":
        texts = [text.get_text() for text in axes.get_xticklabels()]
        names = {float(place): text for place, text in zip(axes.get_xticks(), texts, strict=False) if text}
    found = [names.get(float(value)) for value in x]
    return {"label": found} if any(found) else {}


def _line(line: Line2D, axes: Axes, number: int) -> dict[str, Any]:
    if isinstance(line, AxLine):
        points = np.array([point for point in (line.get_xy1(), line.get_xy2()) if point is not None])
        return _block("reference", "reference", x=points[:, 0], y=points[:, 1])
    x_is_data, y_is_data = line.get_transform().contains_branch_seperately(axes.transData)
    x, y = _numbers(line.get_xdata(orig=False)), _numbers(line.get_ydata(orig=False))
    if x_is_data and y_is_data:
        return _block("line", f"line {number}", x=x, y=y, **_categories(axes, x))
    ends = {"x": x[:1]} if x_is_data else {"y": y[:1] if y_is_data else y[:0]}
    return _block("reference", "reference", **ends)


def _bars(container: BarContainer, axes: Axes) -> dict[str, Any]:
    bars = container.patches
    if getattr(container, "orientation", "vertical") == "horizontal":
        at = np.array([bar.get_y() + bar.get_height() / 2 for bar in bars])
        length = [bar.get_x() + bar.get_width() for bar in bars]
        return _block("bar", "bars", x=length, y=at)
    at = np.array([bar.get_x() + bar.get_width() / 2 for bar in bars])
    low, top = [bar.get_y() for bar in bars], [bar.get_y() + bar.get_height() for bar in bars]
    stacked = {"low": low, "high": top} if any(low) else {}
    return _block("bar", "bars", x=at, y=top, **stacked, **_categories(axes, at))


def _error_bars(container: ErrorbarContainer, axes: Axes) -> dict[str, Any]:
    line, _, bars = container
    segments = {"x": np.empty((0, 2, 2)), "y": np.empty((0, 2, 2))}
    for bar in bars:
        ends = np.asarray(bar.get_segments(), dtype=float).reshape(-1, 2, 2)
        segments["y" if len(ends) and np.all(ends[:, 0, 0] == ends[:, 1, 0]) else "x"] = ends
    vertical = segments["y"]
    if line is not None:
        x, y = _numbers(line.get_xdata(orig=False)), _numbers(line.get_ydata(orig=False))
    else:
        x, y = vertical[:, 0, 0], vertical[:, :, 1].mean(1)
    bounds = {"low": vertical[:, 0, 1], "high": vertical[:, 1, 1]} if len(vertical) == len(x) else {}
    return _block("points", "points", x=x, y=y, **bounds, **_categories(axes, x))


def _image(image: AxesImage) -> dict[str, Any]:
    values = image.get_array()
    if values is None or values.ndim != 2:
        return {"x": []}  # a picture, not data
    rows, columns = values.shape
    left, right, bottom, top = image.get_extent()
    x = left + (np.arange(columns) + 0.5) * (right - left) / columns
    y = bottom + (np.arange(rows) + 0.5) * (top - bottom) / rows
    if image.origin == "upper":
        y = y[::-1]
    return _block("image", "image", x=np.tile(x, rows), y=np.repeat(y, columns), value=_numbers(values))


def _collection(collection: Collection, axes: Axes) -> Iterator[dict[str, Any]]:
    if isinstance(collection, ContourSet):
        yield from _contours(collection)
    elif isinstance(collection, QuadMesh):
        corners = np.asarray(collection.get_coordinates(), dtype=float)
        centres = (corners[:-1, :-1] + corners[1:, :-1] + corners[:-1, 1:] + corners[1:, 1:]) / 4
        values = _numbers(collection.get_array())
        if values.size == centres[..., 0].size:
            x, y = centres[..., 0].ravel(), centres[..., 1].ravel()
            yield _block("image", "image", x=x, y=y, value=values)
    elif isinstance(collection, PathCollection):
        offsets: Any = np.ma.asarray(collection.get_offsets(), dtype=float)
        x, y = _numbers(offsets[:, 0]), _numbers(offsets[:, 1])
        coded = collection.get_array()
        value = {"value": _numbers(coded)} if coded is not None else {}
        yield _block("points", "points", x=x, y=y, **value, **_categories(axes, x))
    elif isinstance(collection, LineCollection):
        ends = np.concatenate(
            [np.asarray(part, dtype=float) for part in collection.get_segments()] or [np.empty((0, 2))]
        )
        yield _block("segments", "segments", x=ends[:, 0], y=ends[:, 1])
    elif type(collection).__name__ == "FillBetweenPolyCollection":
        yield _band(collection)


def _band(band: Collection) -> dict[str, Any]:
    """A band between two curves. Its outline runs along one curve and back along the other."""
    parts = []
    for path in band.get_paths():
        vertices = np.asarray(path.vertices, dtype=float)
        frame = pd.DataFrame({"x": vertices[:, 0], "y": vertices[:, 1]})
        parts.append(frame.groupby("x", sort=True)["y"].agg(low="min", high="max").reset_index())
    joined = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"x": [], "low": [], "high": []})
    return _block("band", "band", **{name: joined[name].to_numpy() for name in ("x", "low", "high")})


def _contours(contours: ContourSet) -> Iterator[dict[str, Any]]:
    for level, path in zip(contours.levels, contours.get_paths(), strict=False):
        vertices = np.asarray(path.vertices, dtype=float).reshape(-1, 2)
        value = np.full(len(vertices), float(level))
        yield {"kind": "contour", "series": "contour", "x": vertices[:, 0], "y": vertices[:, 1], "value": value}
