"""From the way to a test minimum to one row a run, and the figure."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots

REACHED = 1.5
"""How far above the stopping loss an end may lie: batches go on between two looks."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; columns as `way_between` says.

    `flatter_than_random` is the flat share of the way less that of a random combination of the test gradients. The
    regime: both losses were brought to the stopping loss.
    """
    rows = records.set_index("run")
    table = rows[["flat_share", "flat_share_at_random", "rise", "test_loss"]].copy()
    table["flatter_than_random"] = rows["flat_share"] - rows["flat_share_at_random"]
    ends = rows[["training_loss", "moved_test_loss"]].max(axis=1)
    table["regime_reached"] = ends <= REACHED * rows["stopping_loss"]
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig7_remark`: how flat the way to a test minimum is, and how much the training loss rises on it."""
    rows = records.assign(thousands=records["parameters"] / 1000)
    figure, (left, right) = subplots(1, 2, size=(8.8, 4.4))
    shares = {"flat_share": "the way to a test minimum", "flat_share_at_random": "test gradients, at random"}
    for axes, columns in ((left, shares), (right, {"rise": shares["flat_share"]})):
        mean_bands(axes, rows, "thousands", columns, markers=True)
        log_axis(axes, "x", ticks=sorted(round(value) for value in rows["thousands"].unique()))
        axes.set_xlabel("thousands of parameters")
    left.set(ylabel="share of the squared way in flat directions", ylim=(0, 1), title="where the training loss is flat")
    right.set(ylabel="rise of training loss / fall of test loss", title="what it costs in training loss")
    reference_line(right, y=1.0, label="one landscape shifted (Fig. 7)")
    right.set_ylim(bottom=0)
    handles, labels = left.get_legend_handles_labels()
    shift = right.get_legend_handles_labels()
    figure.legend([*handles, shift[0][-1]], [*labels, shift[1][-1]], loc="outside upper center", ncols=3)
    count = int(rows["examples"].iloc[0])
    note(
        figure, f"{count:,} images of MNIST, parity, and as many others; fully connected networks (D49)", "illustration"
    )
    return {"fig7_remark": figure}
