"""The gaps of the controls along training."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_band, note, subplots

ARMS = {
    "true_labels": "true labels",
    "true_labels_again": "true labels, other random numbers",
    "shuffled_labels": "shuffled labels",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: gap and norm at the last epoch."""
    last = records.sort_values("epoch").groupby("run").last()
    table = last[["training_loss", "norm"]].copy()
    table["loss_gap"] = last["test_loss"] - last["training_loss"]
    table["regime_reached"] = last["epoch"] == last["epochs"]
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The gap of each arm over the epochs."""
    figure, axes = subplots()
    table = records.assign(gap=records["test_loss"] - records["training_loss"])
    mean_band(axes, table, "epoch", "gap", group="arm", labels=ARMS, markers=True)
    axes.set(xlabel="epochs", ylabel="ΔL, test − training loss (nats)", title="Controls")
    axes.legend(loc="center right")
    note(figure, f"perceptron on {int(records['training_images'].iloc[0]):,} images (D1)", "reduced")
    return {"controls": figure}
