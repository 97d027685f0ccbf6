"""A good and a bad minimum of one training set: a row a run, and drawings of both."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, log_axis, note, subplots

ARMS = {"descent": "gradient descent", "planted": "false points first"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: logarithms of losses and curvature, and of η λ₁/2 with the η of the arm `descent`.

    The regime is a training loss at most 1.05 times the goal.
    """
    ends = records[records["kind"] == "end"].set_index("run")
    table = ends[["training_loss", "test_loss", "lambda_1", "trace", "steps"]].copy()
    for name in ("test_loss", "lambda_1", "trace"):
        table[f"log10_{name}"] = np.log10(ends[name].clip(lower=1e-12))
    rate = records.loc[records["arm"] == "descent", "learning_rate"].iloc[0]
    table["log10_instability"] = np.log10(rate * ends["lambda_1"].clip(lower=1e-12) / 2)
    table["regime_reached"] = ends["training_loss"] <= 1.05 * ends["stopping_loss"]
    found: pd.DataFrame = table.reindex(pd.Index(records["run"].unique(), name="run"))
    return found.assign(regime_reached=found["regime_reached"].fillna(False).astype(bool))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig3`."""
    figure, (left, right) = subplots(1, 2, size=(8.0, 4.2), gridspec_kw={"width_ratios": [1.5, 1]})
    first = records[records["seed"] == records["seed"].min()]
    for number, (arm, label) in enumerate(ARMS.items()):
        curve = first[(first["arm"] == arm) & (first["kind"] == "curve")]
        style = "-" if arm == "descent" else (0, (5, 2))
        left.plot(curve["x"], curve["y"], color=PALETTE[number], linestyle=style, label=label)
        ends = records[(records["arm"] == arm) & (records["kind"] == "end")]
        right.plot(
            ends["trace"],
            ends["test_loss"],
            color=PALETTE[number],
            marker=MARKERS[number],
            linestyle="none",
            label=f"_{label}",
            alpha=0.8,
            markersize=6,
        )
    frequency, count = float(records["frequency"].iloc[0]), int(records["examples"].iloc[0])
    x = np.linspace(-1, 1, count)
    left.plot(x, np.sin(frequency * x), "o", color="#111111", markersize=6, label="training points")
    left.set(title="Fig. 3: two global minima", xlabel="x", ylabel="f(x)", xticks=[-1, -0.5, 0, 0.5, 1])
    log_axis(right, "x")
    right.set_yscale("log")
    right.set(title="All seeds", xlabel="Tr H on the training points", ylabel="mean squared error on [−1, 1]")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, "regression of our choice (D45)", "illustration")
    return {"fig3": figure}
