"""From the way to the nearest test minimum to one row a run, and the figure."""

import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots

LINEAR = 0.5
"""Share of the test loss that may be left at the linearised test minimum."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; columns as `nearest_test_minimum` says.

    `flatter_than_random` is the flat share of the way less that of a random combination of the test gradients. The
    regime: the training loss was reached, and of the test loss at most half is left where its linearised minimum lies,
    so that this is the way down indeed.
    """
    rows = records.set_index("run")
    table = rows[["flat_share", "flat_share_at_random", "rise", "rise_at_random", "test_loss"]].copy()
    table["flatter_than_random"] = rows["flat_share"] - rows["flat_share_at_random"]
    table["left"] = rows["moved_test_loss"] / rows["test_loss"]
    table["moved_rise"] = rows["moved_training_loss"] / rows["test_loss"]
    trained = rows["training_loss"] <= 1.5 * rows["stopping_loss"]
    table["regime_reached"] = trained & (table["left"] <= LINEAR)
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig7_remark`: how flat the way to the test minimum is, and what the training loss says of it."""
    rows = records.assign(thousands=records["parameters"] / 1000)
    figure, (left, right) = subplots(1, 2, size=(8.8, 4.4))
    shares = {"flat_share": "to the nearest test minimum", "flat_share_at_random": "at random, test gradients"}
    rises = {name.replace("flat_share", "rise"): label for name, label in shares.items()}
    for axes, columns in ((left, shares), (right, rises)):
        mean_bands(axes, rows, "thousands", columns, markers=True)
        log_axis(axes, "x", ticks=sorted(round(value) for value in rows["thousands"].unique()))
        axes.set_xlabel("thousands of parameters")
    left.set(ylabel="share of the squared way in flat directions", ylim=(0, 1), title="where the training loss is flat")
    right.set(ylabel="rise of training loss / fall of test loss", title="what it costs in training loss")
    reference_line(right, y=1.0, label="one landscape shifted (Fig. 7)")
    right.set_ylim(bottom=0)
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    count = int(rows["examples"].iloc[0])
    note(
        figure, f"{count:,} images of MNIST, parity, and as many others; fully connected networks (D49)", "illustration"
    )
    return {"fig7_remark": figure}
