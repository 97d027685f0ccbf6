"""From SGD's solutions of many sizes to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, mean_bands, note, subplots


def _with_bounds(records: pd.DataFrame) -> pd.DataFrame:
    rate, batch = records["learning_rate"], records["batch_size"]
    return records.assign(
        bound=np.sqrt(batch / records["mu_smallest"].clip(lower=1e-12)) / rate,
        gd_bound=2 * np.sqrt(records["examples"]) / rate,
        full=batch >= records["examples"],
    )


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `tightness` is ‖H‖_F over (1/η)√(B/μ₀), `gd_tightness` over 2√n/η, `edge` is ηλ₁/2; H = G at interpolation. The
    regime is that the loss at which all stop was reached.
    """
    rows = _with_bounds(records).set_index("run")
    table = rows[["frobenius", "largest", "mu", "mu_smallest", "loss"]].copy()
    table["log_frobenius"] = np.log(rows["frobenius"])
    table["tightness"] = rows["frobenius"] / rows["bound"]
    table["gd_tightness"] = rows["frobenius"] / rows["gd_bound"]
    table["edge"] = rows["largest"] * rows["learning_rate"] / 2
    table["regime_reached"] = rows["loss"] <= 1.01 * rows["stopping_loss"]
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """‖H‖_F over parameters for SGD with its bound, and over the batch size."""
    rows = _with_bounds(records)
    rows["thousands"] = rows["parameters"] / 1000
    stochastic = rows[~rows["full"]]
    common = stochastic.groupby("batch_size")["width"].nunique().idxmax()
    sizes = stochastic[stochastic["batch_size"] == common]
    width = stochastic.groupby("width")["batch_size"].nunique().idxmax()
    by_batch = rows[rows["width"] == width]
    figure, (left, right) = subplots(1, 2, size=(8.8, 4.4), sharey=True)
    low, high = sizes["thousands"].min(), sizes["thousands"].max()
    round_sizes = [size for size in (25, 50, 100, 200, 400, 800, 1600, 3200) if 0.9 * low < size < 1.1 * high]
    ticks = {"thousands": round_sizes, "batch_size": sorted(by_batch["batch_size"].unique())}
    for axes, part, x in ((left, sizes, "thousands"), (right, by_batch, "batch_size")):
        mean_bands(axes, part, x, {"frobenius": r"$\|H\|_F$ found", "bound": "(1/η)√(B/μ₀)"}, log=True, markers=True)
        bound = part.groupby(x)["gd_bound"].mean()
        axes.plot(bound.index, bound, color=PALETTE[2], linestyle="--", label="2√n/η, for GD")
        log_axis(axes, "x", ticks=ticks[x])
    left.set_yscale("log")
    left.set(xlabel="thousands of parameters", ylabel="Frobenius norm of the Hessian", title=f"SGD with B = {common}")
    right.set(xlabel=f"batch size B ({int(rows['examples'].iloc[0])}: GD)", title=f"width {width}")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    text = f"n = {int(rows['examples'].iloc[0]):,} images of two CIFAR-10 classes, fully connected networks (D28)"
    note(figure, text, "reduced")
    return {"size_independence": figure}
