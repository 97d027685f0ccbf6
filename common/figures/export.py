"""Figures to files: an SVG that is equal for equal data, a PNG, and the plotted data as CSV."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import Collection, PathCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from common.figures.compaction import compact
from common.figures.data import all_axes, plotted_data
from common.figures.style import INK, STYLE
from common.files import write_atomically

SVG_LIMIT = 300_000  # bytes
PNG_DPI = 160

# What is drawn as pixels inside the SVG, tried in turn until it fits: artists with more than so many vertices
# (None: whole axes, ticks included), at so many dots per inch.
_STEPS: tuple[tuple[int | None, int], ...] = (
    (3000, 200),
    (1000, 150),
    (100, 120),
    (0, 100),
    (None, 100),
    (None, 50),
)

_SAVING: Any = {key: value for key, value in STYLE.items() if key.startswith(("svg.", "savefig."))}


def export(figure: Figure, folder: Path, name: str) -> dict[str, Path]:
    """Write `figure` as `<name>.svg`, `<name>.png` and `<name>.csv` in `folder`.

    The SVG holds no date, version or random name, its text is text, and it stays under 300 KB: artists of many
    points are drawn as pixels, the more of them the larger it would be. The figure is left as it was.

    Args:
        figure: any matplotlib figure.
        folder: made if missing.
        name: file name without ending, such as "fig3".

    Returns:
        The three paths under the keys "svg", "png" and "csv".

    Raises:
        ValueError: `name` is not a plain file name, or no rendering fits the limit.
    """
    if not name or Path(name).name != name:
        raise ValueError(f"figure name {name!r} is not a plain file name.")
    paths = {ending: folder / f"{name}.{ending}" for ending in ("svg", "png", "csv")}
    with matplotlib.rc_context(_SAVING):
        write_atomically(paths["svg"], _svg(figure))
        write_atomically(paths["png"], _render(figure, "png", PNG_DPI))
    write_atomically(paths["csv"], plotted_data(figure).to_csv(index=False, lineterminator="\n", float_format="%.10g"))
    return paths


def figure_title(figure: Figure) -> str:
    """The title above the figure, else the first axes' title, else nothing."""
    titles = [figure.get_suptitle()] + [axes.get_title("left") or axes.get_title() for axes in figure.axes]
    return next((title for title in titles if title), "")


def _svg(figure: Figure) -> bytes:
    figure.draw_without_rendering()  # 3-D artists know their faces only after it
    for threshold, dpi in _STEPS:
        with _rasterised(figure, threshold), _pinned_text(figure):
            content = compact(_render(figure, "svg", dpi).decode()).encode()
        if len(content) < SVG_LIMIT:
            return content
    raise ValueError(f"the figure takes {len(content)} bytes as SVG; draw less, or make it smaller.")


def _render(figure: Figure, kind: str, dpi: int) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def _vertices(artist: Any) -> int:
    """How much an artist weighs in an SVG, in vertices."""
    if isinstance(artist, Line2D):
        count = np.size(artist.get_xdata())
        return 3 * count if artist.get_marker() not in ("", "None", "none", None) else count
    if isinstance(artist, PathCollection):
        return 3 * len(np.asarray(artist.get_offsets()))
    if isinstance(artist, QuadMesh):
        return 2 * np.size(artist.get_coordinates())
    if isinstance(artist, Collection):
        if hasattr(artist, "do_3d_projection"):
            artist.do_3d_projection()
        return sum(len(np.asarray(path.vertices)) for path in artist.get_paths())
    return 0


@contextmanager
def _rasterised(figure: Figure, threshold: int | None) -> Iterator[None]:
    """Within: artists of more than `threshold` vertices, or whole axes, are drawn as pixels."""
    changed: list[tuple[Artist, bool]] = []
    for axes in all_axes(figure):
        heavy: list[Artist] = [axes]
        if threshold is not None:
            heavy = [item for item in (*axes.lines, *axes.collections) if _vertices(item) > threshold]
        changed += [(item, bool(item.get_rasterized())) for item in heavy]
    try:
        for item, _ in changed:
            item.set_rasterized(True)
        yield
    finally:
        for item, before in changed:
            item.set_rasterized(before)


@contextmanager
def _pinned_text(figure: Figure) -> Iterator[None]:
    """Within: text that lies on an image is black, not ink, since a page may turn ink light but not the image."""
    changed = [
        text
        for axes in all_axes(figure)
        if axes.images or any(isinstance(item, QuadMesh) for item in axes.collections)
        for text in axes.texts
        if to_hex(text.get_color()) == INK
    ]
    try:
        for text in changed:
            text.set_color("#000000")
        yield
    finally:
        for text in changed:
            text.set_color(INK)
