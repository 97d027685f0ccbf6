"""Curvature per nat over the loss, along training."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, mark_seed, placeholder, subplots

from .shared.accuracies import say_setting
from .shared.delays import delay_metrics

ARMS = {
    "large_decay": "large decay alone",
    "nso": "noise on both sides (NSO)",
    "wp_sgd": "noise on one side (WP-SGD)",
    "gradient_noise": "noise in the gradient",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """`delay_metrics`, with `regime_reached` where the run is complete and fits: 99 % of the training accuracy."""
    table = delay_metrics(records)
    table["regime_reached"] = table["final_accuracy"].notna() & table["time_to_fit"].notna()
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Tr H and λ₁ per nat over the loss of the same pairs, a line a seed."""
    rows = records[records["kind"] == "curvature"].sort_values("step")
    if rows.empty:
        return {"equal_loss": placeholder("Curvature at equal loss", "No run has a measurement.")}
    figure, panels = subplots(1, 2, size=(8.4, 4.4), sharex=True)
    for axes, (column, name) in zip(panels, {"trace": "Tr H", "sharpness": "λ₁"}.items(), strict=True):
        for place, arm in enumerate(ARMS):
            _lines(axes, rows[rows["arm"] == arm], column, place, ARMS[arm])
        scale = "log" if (rows[column] > 0).all() else "symlog"
        axes.set(xscale="log", yscale=scale, xlabel="loss of the same training pairs (nats)", title=f"{name} per nat")
    panels[0].invert_xaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    say_setting(figure, records, "D13")
    return {"equal_loss": figure}


def _lines(axes: Axes, rows: pd.DataFrame, column: str, place: int, label: str) -> None:
    """One arm: per nat of the loss, in the order of training."""
    known = rows[rows["curvature_loss"] > 0]
    for number, (_, run) in enumerate(known.groupby("run", sort=False)):
        line = axes.plot(
            run["curvature_loss"],
            run[column] / run["curvature_loss"],
            color=PALETTE[place],
            marker=MARKERS[place],
            markersize=3,
            linewidth=0.8,
            alpha=0.6,
            label=label if number == 0 else f"_{label} {number}",
        )
        mark_seed(line, run["seed"].iloc[0])
