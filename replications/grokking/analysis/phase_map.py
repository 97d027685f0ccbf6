"""The map of decay, rate and share: what a run does in each cell, and when."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from common.figures import MARKERS, PALETTE, abreast, log_axis, subplots

from .shared.accuracies import say_setting
from .shared.delays import BEHAVIOURS, behaviour, delay_metrics, log_delay_of_grokking

AXES = ["train_fraction", "learning_rate", "weight_decay"]


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """`delay_metrics`, `log_delay_of_grokking`, and `regime_reached` where the run is complete."""
    table = delay_metrics(records)
    table["log_delay_of_grokking"] = log_delay_of_grokking(table)
    table["regime_reached"] = table["final_accuracy"].notna()
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Behaviour of every cell, and steps to fit and to 99 % over the decay."""
    table = delay_metrics(records).join(records.groupby("run", sort=False)[AXES].first())
    table["behaviour"] = [behaviour(row) for _, row in table.iterrows()]
    return {"phase_map": _map(table, records), "phase_times": _times(table, records)}


def _map(table: pd.DataFrame, records: pd.DataFrame) -> Figure:
    """A panel a share, a row a decay, a column a rate; a marker a seed, and the median steps to 99 %."""
    shares = sorted(table["train_fraction"].unique())
    figure, panels = subplots(1, len(shares), size=(9.0, 4.6), sharey=True, squeeze=False)
    for axes, share in zip(panels[0], shares, strict=True):
        _cells(axes, table[table["train_fraction"] == share])
        axes.set_title(f"{100 * share:g} % of the table", fontsize=10)
    panels[0][0].set_ylabel("weight decay λ")
    handles = [Line2D([], [], **_look(name), linestyle="none", label=text) for name, text in BEHAVIOURS.items()]
    title = "Behaviour by decay, rate and share; median steps to 99 %"
    figure.legend(handles=handles, loc="outside upper left", ncols=3, fontsize=9, title=title)
    say_setting(figure, records, "D11")
    return figure


def _look(name: str) -> dict[str, Any]:
    place = list(BEHAVIOURS).index(name)
    return {"marker": MARKERS[place], "color": PALETTE[place]}


def _cells(axes: Axes, table: pd.DataFrame) -> None:
    decays, rates = (sorted(table[name].unique()) for name in ("weight_decay", "learning_rate"))
    for (decay, rate), rows in table.groupby(["weight_decay", "learning_rate"]):
        row, column = decays.index(decay), rates.index(rate)
        places = column + abreast(len(rows), 0.56)
        for x, name in zip(places, rows["behaviour"], strict=True):
            axes.plot(x, row - 0.12, linestyle="none", markersize=6, label=f"_{name}", **_look(name))
        median = rows["time_to_grok"].fillna(np.inf).median()
        text = f"{median:,.0f}" if np.isfinite(median) else "–"
        axes.text(column, row + 0.2, text, ha="center", va="center", fontsize=8)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(decays)), [f"{decay:g}" for decay in decays])
    axes.set(xlim=(-0.5, len(rates) - 0.5), ylim=(len(decays) - 0.5, -0.5), xlabel="learning rate")
    axes.grid(visible=False)


def _times(table: pd.DataFrame, records: pd.DataFrame) -> Figure:
    """Median steps to fit (dashed) and to 99 % of validation over the decay, a line a rate, a panel a share."""
    shares, rates = (sorted(table[name].unique()) for name in ("train_fraction", "learning_rate"))
    figure, panels = subplots(1, len(shares), size=(8.4, 3.9), sharey=True, squeeze=False)
    for axes, share in zip(panels[0], shares, strict=True):
        for place, rate in enumerate(rates):
            cell = table[(table["train_fraction"] == share) & (table["learning_rate"] == rate)]
            medians = cell.fillna({"time_to_fit": np.inf, "time_to_grok": np.inf}).groupby("weight_decay")
            for column, style in (("time_to_fit", "--"), ("time_to_grok", "-")):
                known = medians[column].median().replace(np.inf, np.nan).dropna()
                known = known[known.index > 0]
                label = f"rate {rate:g}" if style == "-" else f"_rate {rate:g}, fit"
                look = {"color": PALETTE[place], "marker": MARKERS[place], "linestyle": style}
                axes.plot(known.index, known, label=label, **look)
        if any(len(line.get_xdata()) for line in axes.lines):  # in a few steps no network may fit
            log_axis(axes, "x")
            log_axis(axes, "y")
        axes.set_title(f"{100 * share:g} % of the table", fontsize=10)
        axes.set_xlabel("weight decay λ")
    panels[0][0].set_ylabel("median steps to 99 %")
    handles, labels = panels[0][0].get_legend_handles_labels()
    title = "validation solid, training dashed; none: in most seeds never"
    figure.legend(handles, labels, loc="outside upper left", ncols=len(rates), title=title)
    say_setting(figure, records, "D11")
    return figure
