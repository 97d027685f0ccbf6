"""Training and test loss of the two-layer networks."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_bands, note, subplots

FITTED_LOSS = 0.1  # nats


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: losses at the last epoch; the regime is a training loss below 0.1."""
    last = records[records["epoch"] == records["epoch"].max()].set_index("run")[["training_loss", "test_loss"]]
    gap, fitted = last["test_loss"] - last["training_loss"], last["training_loss"] < FITTED_LOSS
    table: pd.DataFrame = last.assign(gap=gap, regime_reached=fitted)
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Training and test loss over the epochs."""
    figure, axes = subplots()
    mean_bands(axes, records, "epoch", {"training_loss": "training", "test_loss": "test"})
    axes.set_yscale("log")
    axes.set(xlabel="epochs", ylabel="cross-entropy (nats)", title="Two-layer ReLU network on MNIST")
    axes.legend()
    note(figure, f"the network is ours, on {int(records['training_images'].iloc[0]):,} images (D11)", "deviation")
    return {"two_layer_training": figure}
