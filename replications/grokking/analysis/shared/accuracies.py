"""Panels of accuracy over steps, and what is drawn in them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from common.figures import PALETTE, abreast, note, subplots

from .grokked_runs import GROKKED

POINTS = 400
"""Points a curve keeps, evenly spread over the logarithm of the step, with the extremes between them."""
PARTS = 40
"""Equal parts of the logarithm of the step, of each of which a band has the lowest and the highest evaluation."""


def accuracy_panels(
    records: pd.DataFrame, axis: str, titles: dict[Any, str], title: str, *, deviation: str = "D2"
) -> Figure:
    """A panel for each value of `axis`: training and validation accuracy of every seed over the step."""
    count = len(titles)
    figure, panels = subplots(
        -(-count // 2), 2, size=(7.6, 2.3 * -(-count // 2) + 0.7), sharex=True, sharey=True, squeeze=False
    )
    for axes in panels.flat[count:]:
        axes.set_axis_off()
    for axes, (value, name) in zip(panels.flat, titles.items(), strict=False):
        part = records[(records[axis] == value) & (records["kind"] == "evaluation") & (records["step"] >= 10)]
        draw_accuracies(axes, part)
        axes.set_title(name)
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy (%)")
    for axes in panels.flat[max(count - 2, 0) : count]:
        axes.set_xlabel("steps")
        axes.tick_params(labelbottom=True)
    figure.suptitle(title.format(modulus=int(records["modulus"].iloc[0])), x=0.01, ha="left")
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    say_setting(figure, records, deviation)
    seeds = records["seed"].nunique()
    text = f"lines: the first seed; bands: the least to the largest evaluation of all {seeds} seeds about that step"
    note(figure, text, "illustration")
    return figure


def draw_accuracies(axes: Axes, looks: pd.DataFrame) -> None:
    """Training and validation accuracy in % over a logarithmic step: the first seed, and the extremes of all seeds."""
    steps = np.log(looks["step"].to_numpy())
    parts = np.digitize(steps, np.linspace(steps.min(), steps.max(), PARTS + 1)[1:-1]) if len(steps) else steps
    at = looks.groupby(parts)["step"].agg(lambda found: float(np.exp(np.log(found).mean())))
    one = looks[looks["seed"] == looks["seed"].min()].sort_values("step")
    for kind, colour, width in (("training", PALETTE[1], 2.2), ("validation", PALETTE[0], 1.1)):
        values = 100 * looks[f"{kind}_accuracy"]
        extremes = values.groupby(parts).agg(["min", "max"])
        axes.fill_between(at, extremes["min"], extremes["max"], color=colour, alpha=0.2, linewidth=0, label=f"_{kind}")
        thin = thinned(one["step"].to_numpy(), 100 * one[f"{kind}_accuracy"].to_numpy())
        axes.plot(*thin, color=colour, linewidth=width, label=kind)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-3, 104)
    axes.axhline(100 * GROKKED, color="#5c6674", linewidth=0.8, linestyle=(0, (4, 3)), label="_99 %", marker="")


def thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each of `POINTS` equal parts of the logarithm of the step the lowest and the highest value."""
    if len(steps) <= POINTS:
        return steps, values
    parts = np.digitize(np.log(steps), np.linspace(np.log(steps[0]), np.log(steps[-1]), POINTS // 2 + 1)[1:-1])
    kept: set[int] = {0, len(steps) - 1}
    for part in np.unique(parts):
        inside = np.flatnonzero(parts == part)
        kept |= {int(inside[values[inside].argmin()]), int(inside[values[inside].argmax()])}
    order = sorted(kept)
    return steps[order], values[order]


def dots(
    table: pd.DataFrame,
    axis: str,
    values: Sequence[Any],
    columns: dict[str, str],
    *,
    title: str,
    records: pd.DataFrame,
    names: Mapping[Any, str] | None = None,
    deviation: str = "D2",
) -> Figure:
    """A panel a measure, a row a setting: a point a seed, a bar at the mean; a row says how many have a value."""
    figure, panels = subplots(1, len(columns), size=(8.4, 0.45 * len(values) + 1.9), sharey=True)
    shades = {value: PALETTE[place % len(PALETTE)] for place, value in enumerate(values)}
    for axes, (column, label) in zip(panels, columns.items(), strict=True):
        for row, value in enumerate(values):
            seeds = table.loc[table[axis] == value, column]
            known = seeds.dropna()
            spread = abreast(len(known), 0.36)
            axes.plot(known, row + spread, "o", color=shades[value], label=f"_{value}")
            if len(known):
                axes.plot([known.mean()] * 2, [row - 0.32, row + 0.32], color=shades[value], label=f"_{value}, mean")
            else:
                axes.text(0.5, row, "none", transform=axes.get_yaxis_transform(), va="center", ha="center", fontsize=9)
            if 0 < len(known) < len(seeds):
                said = f"{len(known)} of {len(seeds)} seeds"
                axes.text(
                    0.99, row + 0.42, said, transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=8
                )
        if not table[column].notna().any():
            axes.set_xlim(0, 1)
        axes.set_title(label, fontsize=10, fontweight="normal")
        axes.set_yticks(range(len(values)), [(names or {}).get(value, str(value)) for value in values])
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.locator_params(axis="x", nbins=4)
    panels[0].set_ylim(len(values) - 0.5, -0.5)
    figure.suptitle(title, x=0.01, ha="left")
    say_setting(figure, records, deviation)
    return figure


def say_setting(figure: Figure, records: pd.DataFrame, deviation: str = "D2") -> None:
    """Note under the figure what was trained, and by how many seeds, with the deviation that says why."""
    first = records.iloc[0]
    layers, width, batch = (int(first[name]) for name in ("layers", "width", "batch_size"))
    if layers < 2 or width < 128:
        seeds = records["seed"].nunique()
        shown = f"{seeds} seeds" if seeds > 1 else "one seed"
        note(figure, f"{deviation}: {layers} layer of width {width}, batches of {batch}; {shown}", "reduced")
