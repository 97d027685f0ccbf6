"""From the records of the trade-off between sharpness term and complexity to one row a mixture, and figures."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import PALETTE, abreast, note, placeholder, subplots

OBJECTIVES = {
    "loosened": "(12), which\nLemma 6 takes",
    "bound": "(7), before it\nis loosened",
    "exact": "E L̂(w + u) + G\nitself",
}
"""What may be minimised over σ, for the ticks."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; of both minima the worse value counts where no place is named.

    Slacks are right minus left side, in nats, over all levels: `slack_9` of M, `slack_lemma9` of the eigenvalue
    version under fully correlated perturbations; `diagonal_fails` is 1 where under these the diagonal version of
    Lemma 5 is broken at some level.
    """
    runs = pd.Index(records["run"].unique(), name="run")
    at = records[records["kind"] == "minimum"]
    levels = records[records["kind"] == "level"]
    table = pd.DataFrame(index=runs)
    table["regime_reached"] = runs.isin(at["run"])
    if at.empty:
        return table
    for name in OBJECTIVES:
        for key in ("distance", "excess"):
            table[f"{name}_{key}"] = at.groupby("run")[f"{name}_{key}"].max()
        table[f"{name}_shift"] = at.groupby("run")[f"{name}_shift"].mean()
    table["third_order_share"] = at.groupby("run")["third_order_share"].min()
    for place, part in at.groupby("place"):
        convex = part.set_index("run")["least_eigenvalue"] >= 0
        table[f"convex_{place}"] = convex.reindex(runs).astype(float)
    by_run = levels["run"]
    table["slack_9"] = (levels["sharpness_bound"] - levels["rise"]).groupby(by_run).min()
    table["rise_over_sharpness"] = (at["rise_at_best"] / at["sharpness_at_best"]).groupby(at["run"]).mean()
    worst = [levels[f"eigenvalue_{name}"] - levels[f"rise_{name}"] for name in ("same", "opposite")]
    table["slack_lemma9"] = worst[0].combine(worst[1], min).groupby(by_run).min()
    broken = [levels[f"rise_{name}"] > levels[f"diagonal_{name}"] for name in ("same", "opposite")]
    table["diagonal_fails"] = (broken[0] | broken[1]).groupby(by_run).max().astype(float)
    table["sharpness_growth"] = _smallest_step(levels, "sharpness_bound", 1)
    table["complexity_fall"] = _smallest_step(levels, "complexity", -1)
    return table


def _smallest_step(levels: pd.DataFrame, column: str, sign: int) -> pd.Series:
    """Smallest of the steps (times `sign`) from a level to the next larger one, over both minima."""
    ordered = levels.sort_values("share")
    steps = sign * ordered.groupby(["run", "place"])[column].diff()
    return steps.groupby(ordered["run"]).min()


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The curves of the first seed that has them, best perturbations, and correlated perturbations."""
    levels = records[records["kind"] == "level"]
    if levels.empty:
        reason = "No mixture with a sharp and a flat minimum was found."
        return {name: placeholder("M against G", reason) for name in ("tradeoff", "best_perturbation", "correlated")}
    at = records[records["kind"] == "minimum"]
    first = levels[levels["seed"] == levels["seed"].min()]
    drawn = {"tradeoff": _curves(first), "best_perturbation": _best(at), "correlated": _correlated(levels)}
    for figure in drawn.values():
        note(figure, "mixtures and network of our choice (D1)", "deviation")
    return drawn


def _curves(levels: pd.DataFrame) -> Figure:
    figure, panels = subplots(1, 2, size=(8.4, 4.2), sharey=True)
    for axes, place in zip(panels, ("sharp", "flat"), strict=True):
        part = levels[levels["place"] == place].sort_values("share")
        axes.plot(part["share"], part["sharpness_bound"], color=PALETTE[1], label="M, bound of the rise (9)")
        axes.plot(part["share"], part["rise"], color=PALETTE[2], label="rise E L̂(w + u) − L̂(w)")
        axes.plot(part["share"], part["complexity"], color=PALETTE[0], label="G, complexity (10)")
        total = part["sharpness_bound"] + part["complexity"]
        axes.plot(part["share"], total, color=PALETTE[3], linewidth=2.6, label="M + G and its minimum")
        axes.plot(part["share"], part["rise"] + part["complexity"], "--", color=PALETTE[4], label="rise + G")
        lowest = int(total.argmin())
        axes.plot(part["share"].iloc[lowest], total.iloc[lowest], "o", color=PALETTE[3], markersize=8)
        axes.set_xscale("log")
        axes.set(xlabel="half width of the perturbation, σ/κ", title=f"{place} minimum")
        axes.set_ylim(-0.02, 1.2)
    panels[0].set_ylabel("nats")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _best(at: pd.DataFrame) -> Figure:
    """How far from σ* each objective has its minimum, and what σ* loses there."""
    figure, (left, right) = subplots(1, 2, size=(8.4, 4.0))
    for position, name in enumerate(OBJECTIVES):
        _column(left, position, np.exp(at[f"{name}_shift"]))
        _column(right, position, at[f"{name}_excess"].clip(lower=0))
    for axes in (left, right):
        axes.set_xticks(range(len(OBJECTIVES)), list(OBJECTIVES.values()))
        axes.set(xlim=(-0.5, len(OBJECTIVES) - 0.5), xlabel="minimised over σ")
    left.axhline(1, color="#8a8f98", linestyle="--", linewidth=1.2)
    left.set_yscale("log")
    left.set(ylabel="best σ / σ* of Lemma 6", title="Where the minimum lies")
    right.set(ylabel="lost by taking σ* (nats)", title="What σ* loses")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return figure


def _column(axes: Axes, position: int, values: pd.Series) -> None:
    """A point a minimum, and their median."""
    spread = abreast(len(values), 0.4)
    first = position == 0
    points, median = ("a minimum", "median") if first else ("_points", "_median")
    axes.plot(position + spread, values, "o", color=PALETTE[0], markersize=3.5, alpha=0.45, label=points)
    axes.plot([position - 0.3, position + 0.3], [values.median()] * 2, color=PALETTE[1], linewidth=2.6, label=median)


def _correlated(levels: pd.DataFrame) -> Figure:
    """Rise under fully correlated perturbations over what Lemma 5's diagonal and Lemma 9 allow."""
    figure, panels = subplots(1, 2, size=(8.4, 3.9), sharey=True)
    for axes, kind, title in zip(
        panels, ("diagonal", "eigenvalue"), ("Lemma 5 (diagonal)", "Lemma 9 (eigenvalue)"), strict=True
    ):
        for place, colour in (("sharp", PALETTE[2]), ("flat", PALETTE[1])):
            part = levels[levels["place"] == place]
            ratios = [part[f"rise_{name}"] / part[f"{kind}_{name}"] for name in ("same", "opposite")]
            worst = ratios[0].combine(ratios[1], max).groupby(part["share"]).agg(["min", "median", "max"])
            shares = worst.index.to_numpy(dtype=float)
            axes.fill_between(shares, worst["min"], worst["max"], color=colour, alpha=0.22, linewidth=0)
            axes.plot(shares, worst["median"], color=colour, label=f"{place} minimum: median and range")
        axes.axhline(1, color="#8a8f98", linestyle="--", linewidth=1.2, label="bound")
        axes.set_xscale("log")
        axes.set(xlabel="half width of the perturbation, σ/κ", title=title)
    panels[0].set_ylabel("rise / right-hand side, worse sign")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure
