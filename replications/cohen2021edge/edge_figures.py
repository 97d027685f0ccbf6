"""Figures: λ₁ along training, plateaus beside their thresholds, losses beside their quadratic models."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import PALETTE, colours, log_axis, mean_band, note, reference_line, subplots

from .edge_analysis import plateau_metrics
from .setting import stability_factor

RULES = {"gradient_descent": "gradient descent", "heavy_ball": "heavy ball", "nesterov": "Nesterov"}
LOSSES = {"cross_entropy": "cross-entropy", "mse": "squared error"}
MOMENTS = {"before": "before", "first_crossing": "first crossing", "settled": "at the edge"}
PAPER_IMAGES = 5000
OPEN: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 1.2}


def plateau_figures(records: pd.DataFrame) -> dict[str, Figure]:
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
        for (edge, seed), curve in part.groupby(["edge", "seed"]):
            label = f"threshold {edge:g}" if seed == part["seed"].min() else None
            axes.plot(curve["step"], curve["ratio"], color=colour[edge], linewidth=0.9, alpha=0.8, label=label)
        reference_line(axes, y=1.0, label="_threshold")
        axes.set(title=_name(part.iloc[0]), xlabel="steps")
    panels[0, 0].set(ylabel="λ₁ over the rule's threshold", ylim=(0, None))
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))
    return _say_what_is_reduced(figure, records)


def _name(one: pd.Series) -> str:
    name = RULES[one["rule"]]
    return name if one["rule"] == "gradient_descent" else f"{name}, β = {one['momentum']:g}"


def _thresholds(records: pd.DataFrame) -> Figure:
    """λ₁ · η of the plateau, a point a seed, beside the formula of each rule; open where λ₁ did not come there."""
    table = plateau_metrics(records).join(records.groupby("run", sort=False)[["rule", "momentum", "edge"]].first())
    rules = [rule for rule in RULES if rule in set(table["rule"])]
    figure, axes = subplots()
    for place, rule in enumerate(rules):
        part = table[table["rule"] == rule]
        factor = stability_factor(rule, float(part["momentum"].iloc[0]))  # type: ignore[arg-type]
        label = "maximum stable sharpness · η (the paper)" if place == 0 else None
        axes.plot([place - 0.32, place + 0.32], [factor, factor], color=PALETTE[1], linewidth=2.4, label=label)
        axes.annotate(f"{factor:.3g}", (place + 0.34, factor), va="center", fontsize=10)
        for number, (edge, runs) in enumerate(part.groupby("edge")):
            spread = place + (number - 0.5) * 0.22 + np.linspace(-0.06, 0.06, len(runs))
            label = f"plateau of λ₁ · η, a seed each, threshold {edge:g}" if place == 0 else None
            marker, colour = "os"[number % 2], PALETTE[(0, 2)[number % 2]]
            values, came = runs["curvature_times_rate"], runs["came"] == 1
            axes.plot(spread, values.where(came), marker, color=colour, label=label)
            axes.plot(spread, values.where(~came), marker, markeredgecolor=colour, **OPEN)
    if (table["came"] == 0).any():
        label = "open: at the end, not come to the threshold"
        axes.plot([], [], "o", markeredgecolor=PALETTE[5], **OPEN, label=label)
    axes.set_xticks(range(len(rules)), [_name(table[table["rule"] == rule].iloc[0]) for rule in rules])
    axes.set(ylabel="λ₁ · η", ylim=(0, 4.4), xlim=(-0.5, len(rules) - 0.3))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left")
    return _say_what_is_reduced(figure, records)


def descent_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`descent`: λ₁ over 2/η above, the loss below."""
    along = records[records["kind"] == "along"]
    figure, (above, below) = subplots(2, 1, size=(5.6, 5.4), sharex=True)
    names = {key: name for key, name in LOSSES.items() if key in set(along["objective"])}
    mean_band(above, along, "step", "ratio", group="objective", labels=names)
    mean_band(below, along, "step", "loss", group="objective", labels=names, log=True)
    reference_line(above, y=1.0, label="2/η")
    log_axis(below, "y")
    above.set(ylabel="λ₁ / (2/η)", ylim=(0, None))
    below.set(ylabel="training loss", xlabel="steps")
    figure.legend(*above.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return {"descent": _say_what_is_reduced(figure, records)}


def expansion_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`expansion`: a panel a moment, both losses over the first, every seed."""
    here = records[records["kind"] == "from_here"]
    moments = {key: name for key, name in MOMENTS.items() if key in set(here["moment"])}
    figure, panels = subplots(1, max(1, len(moments)), size=(10.2, 3.8), squeeze=False, sharey=True)
    for axes, (moment, name) in zip(panels[0], moments.items(), strict=False):
        part = here[here["moment"] == moment]
        _both(axes, part)
        ratio = part["start_ratio"].iloc[0]
        axes.set(title=f"{name}, λ₁ = {ratio:g} · 2/η", xlabel="steps from there", yscale="log", ylim=(0.5, 100))
    panels[0, 0].set_ylabel("loss over its value at the start")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return {"expansion": _say_what_is_reduced(figure, records)}


def _both(axes: Axes, part: pd.DataFrame) -> None:
    for number, (_, curve) in enumerate(part.groupby("run", sort=False)):
        curve = curve.sort_values("step")
        first = curve["loss"].iloc[0]
        for column, colour, name in (
            ("loss", PALETTE[0], "the loss"),
            ("model_loss", PALETTE[1], "its quadratic model"),
        ):
            values = (curve[column] / first).where(curve[column] > 0)
            axes.plot(curve["step"], values, color=colour, linewidth=1.1, alpha=0.85, label=None if number else name)


def growth_figure(records: pd.DataFrame) -> Figure:
    """Growth a step of every seed against λ₁ over the threshold."""
    figure, axes = subplots()
    arms = records.groupby(["rule", "momentum"], sort=False)
    for number, ((rule, momentum), part) in enumerate(arms):
        name = _name(pd.Series({"rule": rule, "momentum": momentum}))
        shift = 0.0012 * (number - len(arms) / 2)
        axes.plot(part["curvature_ratio"] + shift, part["growth"], "o", color=PALETTE[number], label=name)
    reference_line(axes, y=0.0, label="neither grows nor shrinks")
    axes.set(xlabel="λ₁ over the rule's threshold", ylabel="log growth of the iterate a step")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _say_what_is_reduced(figure: Figure, records: pd.DataFrame) -> Figure:
    one = records.iloc[0]
    if one["training_images"] < PAPER_IMAGES:
        note(figure, f"{one['training_images']:.0f} of 5,000 images, 2 × {one['width']:.0f} tanh units (D1)", "reduced")
    return figure
