"""Time to grok, fluctuation and Tr H over σ."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, column_of_seeds, subplots

from .shared.accuracies import say_setting
from .shared.grokked_runs import run_metrics, single_metrics

metrics = single_metrics


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Time to grok, fluctuation and Tr H over σ; σ = 0 is training without noise."""
    table = run_metrics(records).join(records.groupby("run", sort=False)[["noise_scale", "rule"]].first())
    table["scale"] = np.where(table["rule"] == "plain", 0.0, table["noise_scale"])
    table["trace"] = 10 ** table["log_trace"]
    once = (records["curvature_times"] == 1).all()
    columns = {
        "time_to_grok": "steps to 99 %",
        "fluctuation": "fluctuation after 99 % (points)",
        "final_accuracy": "final accuracy (%)",
        "trace": "Tr H at the end" if once else "Tr H, last third",
    }
    figure, panels = subplots(2, 2, size=(7.6, 5.6))
    places = sorted(table["scale"].unique())
    for axes, (column, label) in zip(panels.flat, columns.items(), strict=True):
        for place, scale in enumerate(places):
            column_of_seeds(axes, place, table.loc[table["scale"] == scale, column], PALETTE[0])
        axes.set_xticks(range(len(places)), [f"{scale:g}" if scale else "none" for scale in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_title(label)
        if column == "trace" and (table["trace"] > 0).any():
            axes.set_yscale("log")
    for axes in panels[1]:
        axes.set_xlabel("σ of the noise (NSO)")
    figure.suptitle("Noise of different size, large weight decay", x=0.01, ha="left")
    say_setting(figure, records)
    return {"noise_scale": figure}
