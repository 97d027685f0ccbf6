"""The bounds on two-layer networks: a row a run, each term of theirs, and M against G over the perturbation."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, subplots

from .shared.bounds import bound_figure, bound_metrics, scale_note

COMPLEXITY, MEASURED_SUM = "G, complexity (10)", "measured rise + G"
LEAST_SHOWN = 1e-4
"""Nats below which `level_figure` shows nothing: single seeds' rises are of either sign there."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a seed: the versions of the bounds, and where M + G and the measured sum have their minima."""
    return bound_metrics(records).join(level_metrics(records))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Every version term by term, and the trade-off over the perturbation."""
    return {
        "network_bounds": bound_figure(records, "Bounds on two-layer networks, MNIST"),
        "network_tradeoff": level_figure(records),
    }


def level_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: log₂ of the multiple of σ* where (12) + G and the measured rise + G are least, and M over rise."""
    levels = records[records["kind"] == "level"].set_index("run")
    table = pd.DataFrame(index=pd.Index(records["run"].unique(), name="run"))
    for name, column in (("loosened", "sharpness_loosened"), ("exact", "rise")):
        total = levels[column] + levels["complexity"]
        lowest = levels.assign(total=total).sort_values("total").groupby(level="run").first()
        table[f"log2_best_scale_{name}"] = np.log2(lowest["scale"])
    table["slack_9"] = (levels["sharpness_bound"] - levels["rise"]).groupby(level="run").min()
    one = levels[levels["scale"] == 1]
    table["rise_over_sharpness"] = one["rise"] / one["sharpness_bound"]
    return table


def level_figure(records: pd.DataFrame) -> Figure:
    """M by (9) and (12), G, the measured rise and both sums, over multiples of σ*."""
    levels = records[records["kind"] == "level"]
    columns = {
        "sharpness_loosened": "M, its bound as in (12)",
        "sharpness_bound": "M, its bound by (9)",
        "rise": "rise of the loss, measured",
        "complexity": COMPLEXITY,
    }
    sums = {"loosened_sum": "(12) + G", "rise_sum": MEASURED_SUM}
    drawn = levels.assign(
        loosened_sum=levels["sharpness_loosened"] + levels["complexity"],
        rise_sum=levels["rise"] + levels["complexity"],
    )
    figure, axes = subplots(size=(5.6, 4.8))
    lines = mean_bands(axes, drawn, "scale", columns | sums)
    lines[MEASURED_SUM].set(linestyle="--")
    lines[COMPLEXITY].set(linewidth=4, zorder=1.5)
    log_axis(axes, "x")
    axes.set_yscale("log")
    axes.set_ylim(bottom=LEAST_SHOWN)
    axes.set(
        xlabel="half width of the perturbation, σ/σ* of Lemma 6", ylabel="nats", title="M against G, MNIST network"
    )
    figure.legend(loc="outside upper center", ncols=2)
    scale_note(figure, records)
    return figure
