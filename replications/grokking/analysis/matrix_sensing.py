"""The traces that noise injection ends with on matrix sensing: a row a run, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_band, subplots

from .shared.perturbation_rules import RULES

FITTED = 0.01
"""A factorisation fits the measurements if its loss is at most this share of that at the start."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: log10 of trace, recovery error and loss at the end; `regime_reached` where it fits."""
    ordered = records.sort_values("step").groupby("run", sort=False)
    first, last = ordered.first(), ordered.last()
    table = pd.DataFrame(index=last.index)
    for name in ("trace", "recovery_error", "training_loss"):
        table[f"log_{name}"] = np.log10(last[name])
    complete = last["step"] == last["steps"] * last["lengthening"]
    table["regime_reached"] = complete & (last["training_loss"] <= FITTED * first["training_loss"])
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Loss, exact Tr H and recovery error over gradients, geometric means over seeds."""
    columns = {"training_loss": "training loss", "trace": "Tr H", "recovery_error": "relative error of $WW^T$"}
    figure, panels = subplots(1, 3, size=(9.0, 3.9))
    rows = records[records["trace"] > 0].assign(name=records["rule"].map(RULES))
    ordered = pd.concat([rows[rows["rule"] == rule] for rule in RULES])
    for axes, (column, label) in zip(panels, columns.items(), strict=True):
        mean_band(axes, ordered, "gradients", column, group="name", log=True)
        axes.set_yscale("log")
        axes.set_title(label)
        axes.set_xlabel("gradients")
        axes.locator_params(axis="x", nbins=4)
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=3,
        title="Matrix sensing; geometric means, 95 %",
    )
    return {"matrix_sensing": figure}
