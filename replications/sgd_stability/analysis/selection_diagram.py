"""Sharpness and non-uniformity of the minima that SGD selects: a row a run, Fig. 16."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from common.figures import MARKERS, PALETTE, points, reference_line, subplots

from .shared.selected_minima import criterion_figure, minimum_metrics, say_reduced, with_settings

PUBLISHED = {
    ("fashion_mnist", 0.5): {1000: (3.79, 12.85), 25: (2.30, 7.94), 10: (1.24, 4.27), 4: (0.732, 2.27)},
    ("cifar10", 0.1): {1000: (17.05, 50.8), 25: (9.66, 25.6), 10: (5.13, 9.16), 4: (6.85, 11.1)},
}
"""The authors' mean (a, s) by batch size at n = 1,000, for data and η (their published results)."""


metrics = minimum_metrics


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig16` and `full_criterion`."""
    table = with_settings(records)
    drawn = {"fig16": _diagram(table, str(records["dataset"].iloc[0])), "full_criterion": criterion_figure(table)}
    return say_reduced(drawn, records)


def _diagram(table: pd.DataFrame, dataset: str) -> Figure:
    """Fig. 16: (a, s) by batch size, each with its stable region."""
    part, rate = table, float(table["learning_rate"].iloc[0])
    n = int(part["training_images"].iloc[0])
    figure, axes = subplots(size=(5.6, 5.2))
    reported = PUBLISHED.get((dataset, rate), {})
    sizes = sorted(part["batch_size"].unique(), reverse=True)
    shown = [size for size in sizes if size in (n, 50, 25, 10, 6, 4)]
    for size, colour, marker in zip(shown, PALETTE, MARKERS, strict=False):
        own = part[part["batch_size"] == size]
        label = f"GD, B = n = {n}" if size == n else f"SGD, B = {size}"
        points(axes, own, "sharpness", "non_uniformity", color=colour, label=label, marker=marker)
        if size < n:
            _region(axes, rate, n, size, colour)
        published = reported.get(1000 if size == n else size)
        if published:
            axes.plot(
                *published, marker, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.4, markersize=13
            )
    if reported:
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
        title=f"Fig. 16 · minima that SGD selects, η = {rate:g}{', CIFAR-10' if dataset == 'cifar10' else ''}",
        xlabel="sharpness a = λ₁(H)",
        ylabel="non-uniformity s",
        xlim=(0, 2.35 / rate),
        ylim=(0, 1.08 * max([part["non_uniformity"].max(), *(1.05 * s for _, s in reported.values())])),
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _region(axes: Axes, rate: float, n: int, size: int, colour: str) -> None:
    """Where (1 − ηa)² + η²(n − B)s²/(B(n − 1)) = 1: half an ellipse around a = 1/η that reaches both bounds."""
    tall = np.sqrt(size * (n - 1) / (n - size)) / rate
    axes.add_patch(Ellipse((1 / rate, 0), 2 / rate, 2 * tall, fill=False, edgecolor=colour, linewidth=1.4))
