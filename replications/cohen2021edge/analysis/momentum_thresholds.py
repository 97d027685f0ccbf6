"""The plateau of λ₁ at each rule's edge: a row a run, λ₁ along training, plateaus beside their thresholds."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, abreast, colours, mark_seed, reference_line, subplots

from ..shared.setting import stability_factor
from .shared.by_run import Measures, along_training, at_edge, by_run, log10_loss
from .shared.labels import RULES, rule_name, say_what_is_reduced

ENOUGH = 5
"""Measurements of λ₁ at the edge without which there is no plateau to speak of."""
BAND = (0.95, 1.1)
"""Between these multiples of its threshold λ₁ is on the plateau, in the mean."""
OPEN: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.2}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `edge_ratio`, the mean of λ₁ over the rule's maximum stable sharpness from when λ₁ first reached it to
    the end, or over the last five measurements where it did not, or later; `curvature_times_rate`, the same mean of
    λ₁ · η; `log_curvature_times_rate`, its logarithm; `came`, 1 if there are five measurements from when λ₁ first
    reached the edge on; `on_plateau`, 1 if moreover their mean is within `BAND`; `peak_ratio`; `log10_loss` at the
    end over the start; `regime_reached`: the run was followed to its end, wherever λ₁ came.
    """
    return by_run(records, _plateau)


def _plateau(part: pd.DataFrame) -> Measures:
    along, one = along_training(part), part.iloc[0]
    since = len(at_edge(along))
    factor = stability_factor(one["rule"], float(one["momentum"]))
    mean = float(along["ratio"].tail(max(since, ENOUGH)).mean())
    came = since >= ENOUGH
    return {
        "edge_ratio": mean,
        "curvature_times_rate": mean * factor,
        "log_curvature_times_rate": float(np.log(mean * factor)),
        "came": float(came),
        "on_plateau": float(came and BAND[0] < mean < BAND[1]),
        "peak_ratio": float(along["ratio"].max()),
        "log10_loss": log10_loss(along),
        "regime_reached": bool(along["step"].iloc[-1] == one["steps"]),
    }


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`along_training`, a panel a rule, and `thresholds`."""
    return {"along_training": _along_training(records), "thresholds": _thresholds(records)}


def _along_training(records: pd.DataFrame) -> Figure:
    """λ₁ over the rule's maximum stable sharpness, every seed, one colour an edge."""
    along = records[records["kind"] == "along"]
    rules = [rule for rule in RULES if rule in set(along["rule"])]
    figure, panels = subplots(1, len(rules), size=(1.2 + 3.0 * len(rules), 3.8), squeeze=False, sharey=True)
    edges = sorted(along["edge"].unique())
    colour = colours(edges)
    for axes, rule in zip(panels[0], rules, strict=True):
        part = along[along["rule"] == rule]
        for _, curve in part.groupby(["edge", "seed"]):
            edge, seed = curve["edge"].iloc[0], int(curve["seed"].iloc[0])
            label = f"threshold {edge:g}" if seed == part["seed"].min() else None
            look = {"color": colour[edge], "linewidth": 0.9, "alpha": 0.8}
            mark_seed(axes.plot(curve["step"], curve["ratio"], **look, label=label), seed)
        reference_line(axes, y=1.0, label="_threshold")
        axes.set(title=rule_name(part.iloc[0]), xlabel="steps")
    panels[0, 0].set(ylabel="λ₁ over the rule's threshold", ylim=(0, None))
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=len(edges))
    return say_what_is_reduced(figure, records)


def _thresholds(records: pd.DataFrame) -> Figure:
    """λ₁ · η of the plateau, a point a seed, beside the formula of each rule; open where λ₁ did not come there."""
    table = metrics(records).join(records.groupby("run", sort=False)[["rule", "momentum", "edge"]].first())
    rules = [rule for rule in RULES if rule in set(table["rule"])]
    figure, axes = subplots()
    for place, rule in enumerate(rules):
        part = table[table["rule"] == rule]
        factor = stability_factor(rule, float(part["momentum"].iloc[0]))  # type: ignore[arg-type]
        label = "maximum stable sharpness · η (the paper)" if place == 0 else None
        axes.plot([place - 0.32, place + 0.32], [factor, factor], color=PALETTE[1], linewidth=2.4, label=label)
        axes.annotate(f"{factor:.3g}", (place + 0.34, factor), va="center", fontsize=10)
        for number, (edge, runs) in enumerate(part.groupby("edge")):
            spread = place + (number - 0.5) * 0.22 + abreast(len(runs), 0.12)
            label = f"plateau of λ₁ · η, a seed each, threshold {edge:g}" if place == 0 else None
            marker, colour = "os"[number % 2], PALETTE[(0, 2)[number % 2]]
            values, came = runs["curvature_times_rate"], runs["came"] == 1
            axes.plot(spread, values.where(came), marker, color=colour, label=label)
            axes.plot(spread, values.where(~came), marker, markeredgecolor=colour, **OPEN)
    if (table["came"] == 0).any():
        label = "open: at the end, not come to the threshold"
        axes.plot([], [], "o", markeredgecolor=PALETTE[5], **OPEN, label=label)
    axes.set_xticks(range(len(rules)), [rule_name(table[table["rule"] == rule].iloc[0]) for rule in rules])
    axes.set(ylabel="λ₁ · η", ylim=(0, 4.4), xlim=(-0.5, len(rules) - 0.3))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left")
    return say_what_is_reduced(figure, records)
