"""The planted effect and the repeated draw: a row a run, and their figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, column_of_seeds, log_axis, note, subplots

LABELS = {"sharpness": "sharpness λ₁", "non_uniformity": "non-uniformity s", "test_accuracy": "test accuracy (%)"}
ARMS = {"plain": "plain", "again": "plain,\ndrawn again", "rescaled": "neurons\nrescaled"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: logarithms of a and s, test accuracy and how much it is above that of the plain arm."""
    table = records.groupby("run", sort=False).last()
    for name in ("sharpness", "non_uniformity"):
        table[f"log_{name}"] = np.log(table[name])
    plain = table[table["arm"] == "plain"].set_index("seed")["test_accuracy"]
    table["test_accuracy_change"] = table["test_accuracy"] - plain.reindex(table["seed"]).to_numpy()
    table["regime_reached"] = table["stopped"].astype(bool)
    kept = ["log_sharpness", "log_non_uniformity", "test_accuracy", "test_accuracy_change", "regime_reached"]
    return table[kept]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`controls`: a point a seed, a bar at the mean."""
    table = records.groupby("run", sort=False).last()
    table["test_accuracy"] *= 100
    figure, panels = subplots(1, 3, size=(8.4, 3.6))
    for axes, (name, label) in zip(panels, LABELS.items(), strict=True):
        for place, (arm, colour) in enumerate(zip(ARMS, PALETTE, strict=False)):
            column_of_seeds(axes, place, table.loc[table["arm"] == arm, name], colour)
        axes.set_xticks(range(len(ARMS)), list(ARMS.values()))
        axes.set(title=label, xlim=(-0.5, len(ARMS) - 0.5))
        if name != "test_accuracy":
            log_axis(axes, "y", ticks=[1, 2, 3, 5, 10, 20, 30, 50, 100, 200])
    figure.suptitle("Controls: rescaled neurons, and one arm drawn twice", x=0.01, ha="left")
    one = records.iloc[0]
    note(figure, f"Fashion-MNIST, {one['training_images']:.0f} images; a point a seed, bars: means", "reduced")
    return {"controls": figure}
