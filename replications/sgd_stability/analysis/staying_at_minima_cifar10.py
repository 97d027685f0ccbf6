"""What SGD does from the minima that it selected, beside what their exact thresholds say: a row a run; the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, mark_seed, reference_line, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `exact` (the learning rate over the largest at which SGD is stable in mean square), `left` (share of the
    trajectories whose loss passed `left_above` times the stopping loss), `as_predicted`, the share that left where
    `exact` is above 1 and that stayed where it is not, and `regime_reached`: the minimum has the loss of the selection
    diagram and the threshold converged.
    """
    minima = records[records["kind"] == "minimum"].groupby("run", sort=False).last()
    last = records[records["kind"] == "losses"].groupby("run", sort=False)[["left", "trajectories"]].last()
    left = (last["left"] / last["trajectories"]).reindex(minima.index)
    return pd.DataFrame(
        {
            "exact": minima["exact"],
            "left": left,
            "as_predicted": np.where(minima["exact"] > 1, left, 1 - left),
            "regime_reached": minima["stopped"].astype(bool) & minima["converged"].astype(bool),
        }
    )


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`staying_at_minima_cifar10`: the loss along every trajectory, a panel a minimum, the most stable first."""
    exact = metrics(records)["exact"].sort_values()
    columns = min(5, len(exact))
    rows = -(-len(exact) // columns)
    figure, panels = subplots(
        rows, columns, size=(max(5.6, 1.2 + 1.9 * columns), 1.6 + 2.2 * rows), sharex=True, sharey=True, squeeze=False
    )
    losses = records[records["kind"] == "losses"]
    for axes, (run, ratio) in zip(panels.flat, exact.items(), strict=False):
        of_run = losses[losses["run"] == run]
        seed, count = int(of_run["seed"].iloc[0]), int(of_run["trajectories"].iloc[0])
        colour = PALETTE[1] if ratio > 1 else PALETTE[0]
        for number in range(count):
            mark_seed(axes.plot(of_run["step"], of_run[f"path{number}"], color=colour, linewidth=0.9, alpha=0.6), seed)
        edge = float((of_run["left_above"] * of_run["stopping_loss"]).iloc[0])
        reference_line(axes, y=edge, label="SGD has left")
        axes.set_title(f"η at {ratio:.2f} of the threshold", fontsize=9)
    for axes in panels.flat[len(exact) :]:
        axes.set_axis_off()
    log_axis(panels[0, 0], "y")
    for axes in panels[:, 0]:
        axes.set_ylabel("training loss")
    for axes in panels[-1]:
        axes.set_xlabel("steps of SGD")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper left", title="Fig. 16 · SGD from its own minima"
    )
    return {"staying_at_minima_cifar10": figure}
