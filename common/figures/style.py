"""The style of every figure: quiet axes, a colour-blind safe palette, text that a phone can show.

Text, axes and background use four colours of their own (`INK`, `MUTED`, `GRID`, `FACE`) that occur nowhere else.
A page exchanges these and the palette for its light or dark equivalents; a colour that must stay on both, such as
that of text on an image, is another one. Unexchanged, each colour of the palette has a contrast of at least 3
against both backgrounds.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any, cast

import matplotlib

if "matplotlib.pyplot" not in sys.modules and "MPLBACKEND" not in os.environ:
    matplotlib.use("Agg")  # no window system is needed; a notebook announces its own backend in MPLBACKEND

from cycler import cycler
from matplotlib.figure import Figure

INK = "#1d2530"
MUTED = "#5c6674"
GRID = "#dbe0e6"
FACE = "#fefefe"

# Blue, vermilion, green, purple, ochre, grey: told apart under deuteranopia, protanopia and tritanopia
# (the worst pair is tested), each of middle luminance.
PALETTE = ("#3260db", "#b5431d", "#19a363", "#a648a3", "#c28a14", "#6c7271")
MARKERS = ("o", "s", "^", "D", "v", "P")
SEQUENTIAL = "viridis"

WIDTH, HEIGHT = 5.6, 3.6  # inches; at 5.6 in, 11 pt text is 9.5 px tall on a phone 390 px wide

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": FACE,
    "axes.formatter.limits": (-3, 4),
    "axes.formatter.use_mathtext": True,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.edgecolor": FACE,
    "figure.facecolor": FACE,
    "figure.figsize": (WIDTH, HEIGHT),
    "figure.titlesize": 12.5,
    "figure.titleweight": "bold",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same lay-out on every machine
    "font.size": 11,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "image.cmap": SEQUENTIAL,
    "legend.edgecolor": GRID,
    "legend.facecolor": FACE,
    "legend.fontsize": 10,
    "legend.framealpha": 0.85,
    "legend.labelcolor": INK,
    "legend.title_fontsize": 10,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "lines.markeredgewidth": 0,
    "mathtext.fontset": "dejavusans",
    "patch.linewidth": 0.6,
    "savefig.bbox": "standard",
    "savefig.edgecolor": FACE,
    "savefig.facecolor": FACE,
    "scatter.edgecolors": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "hessian-replications",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 10,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 10,
}


def use_style() -> None:
    """Make the style the default of this process; call it before axes are made by other means than `subplots`."""
    matplotlib.rcParams.update(cast(Any, STYLE))


def subplots(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] | None = None, **keywords: Any
) -> tuple[Figure, Any]:
    """A figure in the style and its axes, as `matplotlib.pyplot.subplots` returns them, but owned by the caller.

    Args:
        rows, columns: the grid of axes.
        size: width and height in inches; default 5.6 × 3.6 for one axes, 4.4 × 3.4 an axes for several.
        keywords: passed to `Figure.subplots` (`sharex`, `squeeze`, `gridspec_kw`, `subplot_kw`, …).
    """
    use_style()
    if size is None:
        size = (WIDTH, HEIGHT) if rows == columns == 1 else (max(WIDTH, 4.4 * columns), 3.4 * rows)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, **keywords)


def colours(labels: Iterable[Any]) -> dict[Any, str]:
    """One palette colour for each distinct label, in order of first appearance; at most six.

    Raises:
        ValueError: more labels than the palette has colours (use a colour map, or several panels).
    """
    distinct = list(dict.fromkeys(labels))
    if len(distinct) > len(PALETTE):
        raise ValueError(f"{len(distinct)} labels for {len(PALETTE)} colours: use a colour map or several panels.")
    return dict(zip(distinct, PALETTE, strict=False))
