"""Non-uniformity against sharpness of minima over learning rates and batch sizes: a row a run, Fig. 17."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, log_axis, points, subplots

from .shared.selected_minima import criterion_figure, minimum_metrics, say_reduced, with_settings

metrics = minimum_metrics


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig17` and `criterion_by_rate`."""
    table = with_settings(records)
    return say_reduced({"fig17": _scatter(table), "criterion_by_rate": criterion_figure(table)}, records)


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
