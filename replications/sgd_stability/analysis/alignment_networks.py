"""From alignment factors of convolutional networks and of ten outputs to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots

NETWORKS = {"convolutional": "CIFAR-10, convolutional", "fully_connected": "MNIST, ten outputs"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `mu` is the last measurement's, at the stopping loss, `mu_smallest` the least on the way, both times the number of
    outputs, by which the decoupled value is 1; `frobenius` is ‖G‖_F there. The regime: the stopping loss was reached.
    """
    rows = records.sort_values("step").assign(mu=records["mu"] * records["outputs"])
    groups = rows.groupby("run")
    last = groups.last()
    table = last[["mu", "loss", "frobenius", "step"]].copy()
    table["parameters"] = last["parameters"].astype(float)
    table["mu_smallest"] = groups["mu"].min()
    table["log_mu"], table["log_frobenius"] = np.log(last["mu"]), np.log(last["frobenius"])
    table["regime_reached"] = last["loss"] <= 1.01 * last["stopping_loss"]
    return table.reindex(records["run"].unique())


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig18_networks`: K μ along training and over the number of parameters; `size_independence_networks`: ‖H‖_F."""
    rows = records.assign(mu=records["mu"] * records["outputs"], thousands=records["parameters"] / 1000)
    last = rows.sort_values("step").groupby("run").last().reset_index()
    present = [name for name in NETWORKS if name in set(rows["kind"])]
    figure, panels = subplots(len(present), 2, size=(8.8, 3.4 * len(present)), squeeze=False)
    sizes, one = subplots(1, len(present), size=(4.4 * len(present), 3.8), squeeze=False)
    for (left, right), norm, name in zip(panels, one[0], present, strict=True):
        part, ends = rows[rows["kind"] == name], last[last["kind"] == name]
        middle = sorted(part["width"].unique())[part["width"].nunique() // 2]
        course = part[part["width"] == middle].assign(step=part["step"].clip(lower=10))
        at_all = course.groupby("step")["run"].nunique()
        course = course[course["step"].isin(at_all[at_all == at_all.max()].index)]
        ticks = sorted(ends["thousands"].unique().round(1))
        mean_bands(left, course, "step", {"mu": "K μ"}, markers=True)
        mean_bands(right, ends, "thousands", {"mu": "K μ"}, markers=True)
        mean_bands(norm, ends, "thousands", {"frobenius": r"$\|H\|_F$"}, markers=True)
        norm.set_ylim(bottom=0)
        for axes in (left, right):
            reference_line(axes, y=1.0, label="Σ = 2L G")
            axes.set_ylim(bottom=0)
        log_axis(left, "x")
        for axes in (right, norm):
            log_axis(axes, "x", ticks=ticks)
            axes.set_xlabel("thousands of parameters")
        left.set(xlabel="SGD steps (0 drawn at 10)", ylabel="K μ", title=f"{NETWORKS[name]}, width {middle}")
        right.set_title("at the stopping loss")
        norm.set(ylabel="Frobenius norm of the Hessian", title=NETWORKS[name])
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    counts = rows.groupby("kind")["examples"].first()
    text = ", ".join(f"{NETWORKS[name]}: {counts[name]} images" for name in present)
    for drawn in (figure, sizes):
        note(drawn, f"{text} (D27)", "reduced")
    return {"fig18_networks": figure, "size_independence_networks": sizes}
