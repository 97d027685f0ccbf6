"""Sharpness and non-uniformity of the minima that SGD selects: a row a run, Figs. 16 and 17."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from common.figures import MARKERS, PALETTE, log_axis, note, points, reference_line, subplots

PUBLISHED = {1000: (3.79, 12.85), 25: (2.30, 7.94), 10: (1.24, 4.27), 4: (0.732, 2.27)}
"""The authors' mean (a, s) by batch size on Fashion-MNIST at η = 0.5, n = 1,000 (their published results)."""
MEASURES = ["sharpness", "non_uniformity", "criterion", "test_accuracy"]


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `sharpness` a, `non_uniformity` s, `criterion` (the full criterion, over its bound),
    `sharpness_ratio` = a/(2/η), `non_uniformity_ratio` = s over its bound (1/η)√(B(n − 1)/(n − B)), absent for the
    full batch; logarithms `log_sharpness`, `log_non_uniformity`; the same times η (`log_scaled_…`); `test_accuracy`;
    `regime_reached`: the loss was reached and the eigenvalues converged.
    """
    table = records.groupby("run", sort=False).last()
    n, rate, size = table["training_images"], table["learning_rate"], table["batch_size"]
    bound = np.sqrt(size * (n - 1) / (n - size).where(n > size)) / rate
    found = table[MEASURES].assign(
        sharpness_ratio=table["sharpness"] * rate / 2,
        non_uniformity_ratio=table["non_uniformity"] / bound,
        log_sharpness=np.log(table["sharpness"]),
        log_non_uniformity=np.log(table["non_uniformity"]),
        log_scaled_sharpness=np.log(table["sharpness"] * rate),
        log_scaled_non_uniformity=np.log(table["non_uniformity"] * rate),
        quotient=table["non_uniformity"] / table["sharpness"],
        steps=table["step"],
        regime_reached=table["stopped"].astype(bool) & table["converged"].astype(bool),
    )
    return pd.DataFrame(found)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig16`, `fig17` and `full_criterion`."""
    columns = ["batch_size", "learning_rate", "training_images", "seed", "standing"]
    axes = records.groupby("run", sort=False)[columns].first()
    table = metrics(records).join(axes)
    figures = {"fig16": _diagram(table), "fig17": _scatter(table), "full_criterion": _criterion(table)}
    n, width = int(records["training_images"].iloc[0]), int(records["width"].iloc[0])
    if n < 1000 or width < 500:
        for figure in figures.values():
            note(figure, f"Fashion-MNIST: {n} of 1,000 images, hidden layers of {width} units, not 500 (D1)", "reduced")
    return figures


def _diagram(table: pd.DataFrame) -> Figure:
    """Fig. 16: (a, s) by batch size at the authors' η = 0.5, each with its stable region."""
    rate = 0.5 if 0.5 in set(table["learning_rate"]) else float(table["learning_rate"].max())
    part = table[table["learning_rate"] == rate]
    n = int(part["training_images"].iloc[0])
    figure, axes = subplots(size=(5.6, 5.2))
    sizes = sorted(part["batch_size"].unique(), reverse=True)
    shown = [size for size in sizes if size in (n, 50, 25, 10, 6, 4)]
    for size, colour, marker in zip(shown, PALETTE, MARKERS, strict=False):
        own = part[part["batch_size"] == size]
        label = f"GD, B = n = {n}" if size == n else f"SGD, B = {size}"
        points(axes, own, "sharpness", "non_uniformity", color=colour, label=label, marker=marker)
        if size < n:
            _region(axes, rate, n, size, colour)
        published = PUBLISHED.get(1000 if size == n else size)
        if published and rate == 0.5:
            axes.plot(
                *published, marker, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.4, markersize=13
            )
    axes.plot(
        [],
        [],
        "o",
        markerfacecolor="none",
        markeredgecolor="grey",
        markeredgewidth=1.4,
        markersize=13,
        label="the authors' means (n = 1,000)",
    )
    axes.plot([], [], color="grey", linewidth=1.4, label="a, s on the same direction: (6) = 1")
    reference_line(axes, x=2 / rate, label="2/η")
    axes.set(
        title=f"Fig. 16 · minima that SGD selects, η = {rate:g}",
        xlabel="sharpness a = λ₁(H)",
        ylabel="non-uniformity s",
        xlim=(0, 2.35 / rate),
        ylim=(0, max(part["non_uniformity"].max(), 13.5 if rate == 0.5 else 0) * 1.08),
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _region(axes: Axes, rate: float, n: int, size: int, colour: str) -> None:
    """Where (1 − ηa)² + η²(n − B)s²/(B(n − 1)) = 1: half an ellipse around a = 1/η that reaches both bounds."""
    tall = np.sqrt(size * (n - 1) / (n - size)) / rate
    axes.add_patch(Ellipse((1 / rate, 0), 2 / rate, 2 * tall, fill=False, edgecolor=colour, linewidth=1.4))


def _scatter(table: pd.DataFrame) -> Figure:
    """Fig. 17: s against a, all models."""
    figure, axes = subplots(size=(5.6, 4.6))
    for (rate, part), colour, marker in zip(table.groupby("learning_rate"), PALETTE, MARKERS, strict=False):
        points(axes, part, "sharpness", "non_uniformity", color=colour, label=f"η = {rate:g}", marker=marker, alpha=0.8)
    powers = [2.0**power for power in range(-8, 12)]
    log_axis(axes, "x", ticks=powers)
    log_axis(axes, "y", ticks=powers)
    both = np.corrcoef(table["sharpness"], table["non_uniformity"])[0, 1]
    axes.set(
        xlabel="sharpness a = λ₁(H)",
        ylabel="non-uniformity s",
        title=f"Fig. 17 · {len(table)} models",
    )
    axes.legend(title=f"correlation {both:.3f} (the authors': 0.981)")
    return figure


def _criterion(table: pd.DataFrame) -> Figure:
    """How near each minimum is to each of three bounds, by batch size."""
    names = {
        "sharpness_ratio": "a over 2/η",
        "non_uniformity_ratio": "s over (1/η)√(B(n−1)/(n−B))",
        "criterion": "full criterion, largest η(H² + cΣ) over 2H",
    }
    rates = sorted(table["learning_rate"].unique(), reverse=True)
    figure, panels = subplots(len(rates), 1, size=(5.6, 1.0 + 2.9 * len(rates)), sharex=True, squeeze=False)
    for axes, rate in zip(panels[:, 0], rates, strict=True):
        part = table[table["learning_rate"] == rate]
        for number, (name, label) in enumerate(names.items()):
            shift = 1.05 ** (number - 1)
            points(
                axes,
                part.assign(place=part["batch_size"] * shift),
                "place",
                name,
                color=PALETTE[number],
                label=label,
                marker=MARKERS[number],
                alpha=0.8,
            )
        reference_line(axes, y=1.0, label="bound of stability")
        axes.set(
            ylabel="measured / bound", title=f"η = {rate:g}", ylim=(0, max(1.2, part[list(names)].max().max() * 1.1))
        )
        log_axis(axes, "x", ticks=sorted(table["batch_size"].unique()))
    panels[-1, 0].set_xlabel("batch size B (images)")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=1)
    return figure
