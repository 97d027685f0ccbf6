"""What report figures need often: a mean over seeds with its interval, logarithmic axes, notes, placeholders."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from common.figures.compaction import OF_SEED
from common.figures.standing import IN_REGIME, hollow_markers
from common.figures.style import INK, MARKERS, MUTED, PALETTE, colours, subplots

NOTES = {
    "deviation": "Deviation",
    "substitution": "Substitution",
    "illustration": "Illustration",
    "reduced": "Reduced scale",
}


def mean_band(
    axes: Axes,
    frame: pd.DataFrame,
    x: str,
    y: str,
    *,
    group: str | None = None,
    seed: str = "seed",
    confidence: float = 0.95,
    log: bool = False,
    labels: dict[Any, str] | None = None,
    markers: bool = False,
) -> dict[Any, Line2D]:
    """Draw the mean of `y` over seeds against `x`, with the t interval of the mean as a band, one line a group.

    Where a seed has no finite value (it diverged, or ended earlier) the mean of the others is drawn dotted and
    without a band, and the legend says of how many seeds that is true. With one seed there is no band. Where `frame`
    has the column `standing`, markers at which not all runs are in their regime are hollow.

    Args:
        axes: where to draw.
        frame: tidy rows; a seed's rows at one `x` are averaged first.
        x, y, group, seed: names of columns; without `group` there is one line.
        confidence: coverage of the interval, per point of x.
        log: average logarithms: the line is the geometric mean. `y` must be positive.
        labels: names for the groups in the legend.
        markers: whether points are marked (few values of x).

    Returns:
        The line of each group (key None without `group`).

    Raises:
        ValueError: `log` with a value that is not positive.
    """
    keys = list(dict.fromkeys(frame[group])) if group else [None]
    colour = colours(keys)
    lines: dict[Any, Line2D] = {}
    for number, key in enumerate(keys):
        part = frame[frame[group] == key] if group else frame
        middle, low, high, complete, lost = _interval_over_seeds(part, x, y, seed, confidence=confidence, log=log)
        name = (labels or {}).get(key, "" if key is None else str(key))
        if lost:
            seeds = part[seed].nunique()
            name = f"{name} ({lost} of {seeds} seeds end early)".strip()
        style: dict[str, Any] = {"color": colour[key], "marker": MARKERS[number] if markers else "none"}
        at = middle.index.to_numpy(dtype=float)
        (lines[key],) = axes.plot(at, middle.where(complete), label=name or "_mean", **style)
        if markers and "standing" in part.columns:
            sound = (part["standing"] == IN_REGIME).groupby(part[x]).all().reindex(middle.index, fill_value=True)
            hollow_markers(axes, lines[key], sound.to_numpy(dtype=bool))
        if not complete.all():
            rest = middle.where(~complete | ~complete.shift(-1, fill_value=True))
            axes.plot(at, rest, linestyle=":", label=f"_{name}, remaining seeds", **style)
        if np.isfinite(low).any():
            band = low.notna() & complete
            axes.fill_between(at, low, high, where=band.to_numpy(), color=colour[key], alpha=0.18, linewidth=0)
            axes.collections[-1].set_label(f"_{name} interval")
    return lines


def mean_bands(axes: Axes, frame: pd.DataFrame, x: str, columns: Mapping[str, str], **how: Any) -> dict[Any, Line2D]:
    """`mean_band` of several columns of `frame`, a line each, by the names that `columns` gives them."""
    kept = frame[[name for name in (x, "seed", "standing") if name in frame.columns]]
    parts = [kept.assign(value=frame[column], of=name) for column, name in columns.items()]
    return mean_band(axes, pd.concat(parts), x, "value", group="of", **how)


def _interval_over_seeds(
    frame: pd.DataFrame, x: str, y: str, seed: str, *, confidence: float, log: bool
) -> tuple[pd.Series, pd.Series, pd.Series, pd.Series, int]:
    """Mean, bounds, whether all seeds are there (all indexed by x), and the number of seeds with a gap."""
    from scipy.special import stdtrit

    table = frame.pivot_table(index=x, columns=seed, values=y, aggfunc="mean", dropna=False).sort_index()
    table = table.where(np.isfinite(table))
    if log:
        if (table <= 0).any().any():
            raise ValueError(f"{y} has values that are not positive: they have no logarithm.")
        table = table.map(math.log, na_action="ignore")
    count, middle, spread = table.notna().sum(axis=1), table.mean(axis=1), table.std(axis=1, ddof=1)
    half = stdtrit(np.maximum(count - 1, 1), 0.5 + confidence / 2) * spread / np.sqrt(count)
    back = np.exp if log else (lambda values: values)
    lost = int(table.isna().any(axis=0).sum())
    return back(middle), back(middle - half), back(middle + half), count == table.shape[1], lost


def mark_seed(artists: Sequence[Artist], seed: int) -> None:
    """Say that artists belong to one seed: a page shows all of that seed at once."""
    for artist in artists:
        artist.set_gid(f"{OF_SEED}{seed}")


def log_axis(axes: Axes, which: Literal["x", "y"], ticks: Sequence[float] | None = None) -> None:
    """Make an axis logarithmic; `ticks` puts plain numbers at these values only (batch sizes, learning rates)."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    if ticks is not None:
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_major_locator(FixedLocator(list(ticks)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())


def abreast(count: int, width: float) -> np.ndarray:
    """Places about 0 of points side by side [count], `width` from the first to the last."""
    return np.linspace(-width / 2, width / 2, count) if count > 1 else np.zeros(count)


def column_of_seeds(axes: Axes, place: float, values: pd.Series, color: str) -> None:
    """A point a seed, side by side about `place`, and a bar at their mean; nothing without values."""
    known = values.dropna()
    axes.plot(place + abreast(len(known), 0.24), known, "o", color=color, label="_seeds")
    if len(known):
        axes.plot([place - 0.25, place + 0.25], [known.mean()] * 2, color=color, linewidth=2.4, label="_mean")


def reference_line(axes: Axes, *, x: float | None = None, y: float | None = None, label: str) -> Line2D:
    """A thin dashed line at a value of theory or of the paper, named in the legend; exactly one of `x` and `y`."""
    if (x is None) == (y is None):
        raise ValueError("give exactly one of x and y.")
    dashed: dict[str, Any] = {"color": MUTED, "linestyle": (0, (4, 3)), "linewidth": 1.2, "label": label, "marker": ""}
    return axes.axvline(x, **dashed) if x is not None else axes.axhline(float(y or 0.0), **dashed)


def note(figure: Figure, text: str, kind: Literal["deviation", "substitution", "illustration", "reduced"]) -> None:
    """Write under the figure what a reader must know of it, such as "D2: Fashion-MNIST instead of TIMIT"."""
    width = int(figure.get_figwidth() * 14.5)
    line = "\n".join(textwrap.wrap(f"{NOTES[kind]} · {text}", width))
    earlier = figure.get_supxlabel()
    figure.supxlabel(f"{earlier}\n{line}" if earlier else line, x=0.01, ha="left", fontsize=9, color=MUTED)


def placeholder(title: str, reason: str) -> Figure:
    """A figure that says why `title` could not be drawn."""
    figure, axes = subplots(size=(5.6, 2.4))
    axes.set_axis_off()
    axes.set_title(_plain(title), loc="left")
    axes.text(0.0, 0.82, "Not drawn", transform=axes.transAxes, va="top", color=PALETTE[1], fontweight="bold")
    lines = textwrap.wrap(" ".join(reason.split()), 66, max_lines=7, placeholder=" …") or ["No reason was given."]
    body = _plain("\n".join(lines))
    axes.text(0.0, 0.62, body, transform=axes.transAxes, va="top", color=INK, fontsize=10, linespacing=1.4)
    return figure


def _plain(text: str) -> str:
    """Text with its dollar signs kept from being read as mathematics."""
    return text.replace("$", r"\$")
