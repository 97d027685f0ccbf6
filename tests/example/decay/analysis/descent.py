"""Figure 1: the last distance of each run, and the distance along it."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """The last distance of each run."""
    last = records.groupby("run", sort=False).last()
    return last.assign(log_distance=np.log(last["distance"]), regime_reached=last["distance"] < 1)[
        ["log_distance", "regime_reached"]
    ]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Distance against steps."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for rate, rows in records.groupby("learning_rate"):
        curve = rows.groupby("step")["distance"].mean()
        axes.plot(curve.index, curve, label=f"learning rate {rate}")
    axes.set(xlabel="step", ylabel="distance to the minimum", yscale="log")
    axes.legend()
    return {"fig1": figure}
