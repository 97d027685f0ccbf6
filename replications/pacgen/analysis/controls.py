"""The controls of the sweeps: a row a run, and their gaps."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import colours, column_of_seeds, log_axis, note, subplots

from .shared.sweep_figures import PAPERS
from .shared.sweep_metrics import at_last_epoch, losses_of, with_logarithms

ARMS = {
    "true_labels": "true\nlabels",
    "true_labels_again": "true,\ndrawn again",
    "shuffled_labels": "shuffled\nlabels",
}
MEMORISING_LOSS = 2.0
"""Shuffled labels count as learnt once the training loss is below; guessing gives log 10 = 2.30."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: every measure at the last epoch, and whether the labels were learnt."""
    table = at_last_epoch(*with_logarithms(records))
    arms = records.groupby("run", sort=False)["arm"].first()
    fitted = losses_of(records).fitted
    limit = np.where(arms.reindex(table.index) == "shuffled_labels", MEMORISING_LOSS, fitted)
    table["regime_reached"] = table["training_loss"] <= limit
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Every seed of the three arms: gap, Ψ and Tr H at the last epoch."""
    table = metrics(records).join(records.groupby("run", sort=False)["arm"].first())
    table["psi"] /= 1000
    arms = list(dict.fromkeys(records["arm"]))
    figure, panels = subplots(1, 3, size=(8.4, 3.8))
    labels = {"gap": "gap (nats)", "psi": "Ψ (thousand nats)", "hessian_trace": "Tr H"}
    for axes, (measure, label) in zip(panels, labels.items(), strict=True):
        for place, arm in enumerate(arms):
            column_of_seeds(axes, place, table.loc[table["arm"] == arm, measure], colours(arms)[arm])
        axes.set_xlim(-0.5, len(arms) - 0.5)
        axes.set_xticks(range(len(arms)), [ARMS.get(arm, arm) for arm in arms])
        axes.set_title(label)
        if measure == "psi":
            axes.set_ylim(bottom=0)
        else:
            log_axis(axes, "y", ticks=[0.3, 0.5, 1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300])
    images, batch = (int(records[name].iloc[0]) for name in ("training_images", "batch_size"))
    figure.suptitle("Controls: shuffled labels, and one arm drawn twice", x=0.01, ha="left")
    note(
        figure,
        f"{images:,} of {PAPERS['mnist'].images:,} training images, batch {batch}; a point a seed, bars: means",
        "reduced",
    )
    return {"controls": figure}
