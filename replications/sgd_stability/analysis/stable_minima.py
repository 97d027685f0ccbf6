"""Where flow and descent end between a sharp and a flat minimum: a row a run, and drawings."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, log_axis, note, reference_line, subplots

LEFT, RIGHT = -1.9, 4.4
"""Part of the circle that is drawn: B, C (0), A, D (π)."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: shares of starts that end at C, at D, at another critical point, or keep moving.

    Of all runs with 2/f″(C) < η < 2/f″(D), where C is not stable and D is: `window_share_flat` is the least
    `share_flat`, `window_share_sharp` the largest `share_sharp`. Missing where there is no such run.
    """
    ends = records[records["kind"] == "ends"].set_index("run")
    names = ["share_sharp", "share_flat", "share_elsewhere", "share_moving", "rise_sharp", "rise_flat"]
    rate = ends["learning_rate"]
    window = ends[(rate > 2 / ends["curvature_sharp"]) & (rate < 2 / ends["curvature_flat"])]
    table: pd.DataFrame = ends[names].assign(
        log10_rise_ratio=(ends["rise_sharp"] / ends["rise_flat"]).map(math.log10),
        window_share_flat=window["share_flat"].min(),
        window_share_sharp=window["share_sharp"].max(),
        regime_reached=True,
    )
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """All three figures."""
    drawn = {"fig7": _shifted(records), "fig12": _flow(records), "fig13": _descent(records)}
    for figure in drawn.values():
        note(figure, "the landscape is ours (D46)", "illustration")
    return drawn


def _f(position: np.ndarray, warp: float) -> np.ndarray:
    return np.asarray((1 - np.cos(2 * (position + warp * np.sin(position)))) / 2)


def _curve(axes: Axes, warp: float) -> None:
    x = np.linspace(LEFT, RIGHT, 300)
    axes.plot(x, _f(x, warp), color="#6c7271", linewidth=2, label="_landscape")
    top = math.pi / 2
    for _ in range(50):  # the maximum between C and D: θ + κ sin θ = π/2
        top -= (top + warp * math.sin(top) - math.pi / 2) / (1 + warp * math.cos(top))
    for name, place in {"A": top, "B": -top, "C": 0.0, "D": math.pi}.items():
        height = float(_f(np.array(place), warp))
        axes.annotate(
            name, (place, height), xytext=(0, 7 if height > 0.5 else -14), textcoords="offset points", ha="center"
        )
    axes.set(xlabel="θ", ylabel="loss", ylim=(-0.17, 1.2))


def _shifted(records: pd.DataFrame) -> Figure:
    figure, axes = subplots(size=(5.6, 3.8))
    warp, shift = float(records["warp"].iloc[0]), float(records["shift"].iloc[0])
    x = np.linspace(LEFT, RIGHT, 300)
    axes.plot(x, _f(x, warp), color=PALETTE[0], label="training")
    axes.plot(x, _f(x - shift, warp), color=PALETTE[1], linestyle=(0, (5, 2)), label="test, shifted")
    for place, name in ((0.0, "sharp"), (math.pi, "flat")):
        height = float(_f(np.array(place - shift), warp))
        axes.plot([place, place], [0, height], color="#a648a3", linewidth=3, label="gap" if name == "sharp" else "_gap")
        axes.annotate(name, (place, 0), xytext=(0, -15), textcoords="offset points", ha="center")
    axes.set(xlabel="θ", ylabel="loss", ylim=(-0.17, 1.08), title="Fig. 7: one shift, two minima")
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def _flow(records: pd.DataFrame) -> Figure:
    figure, axes = subplots(size=(5.6, 3.6))
    warp = float(records["warp"].iloc[0])
    _curve(axes, warp)
    for place in np.linspace(LEFT + 0.2, RIGHT - 0.2, 16):
        ahead = -np.sin(2 * (place + warp * np.sin(place)))
        if abs(ahead) < 0.15:
            continue
        step = 0.22 * np.sign(ahead)
        ends = (
            (place + step, float(_f(np.array(place + step), warp)) + 0.03),
            (place, float(_f(np.array(place), warp)) + 0.03),
        )
        axes.annotate("", *ends, arrowprops={"arrowstyle": "->", "color": PALETTE[0], "linewidth": 1.4})
    axes.set_title("Fig. 12: gradient flow leaves A and B for C or D")
    return figure


def _descent(records: pd.DataFrame) -> Figure:
    figure, (left, right) = subplots(1, 2, size=(8.0, 4.0), gridspec_kw={"width_ratios": [1, 1.1]})
    warp = float(records["warp"].iloc[0])
    _curve(left, warp)
    rates = sorted(records["learning_rate"].unique())
    for number, rate in enumerate((rates[0], min(rates, key=lambda value: abs(value - 1.5)))):
        path = records[(records["kind"] == "path") & (records["learning_rate"] == rate)].sort_values("step")
        folded = (path["position"] - LEFT) % (2 * math.pi) + LEFT
        left.plot(
            folded,
            path["height"],
            color=PALETTE[number],
            marker=MARKERS[number],
            linestyle="none",
            alpha=0.8,
            label=f"η = {rate:g}",
        )
    left.set_title("Steps from near C")
    left.legend(loc="upper right")
    ends = records[records["kind"] == "ends"].sort_values("learning_rate")
    for number, (column, label) in enumerate(
        {"share_sharp": "at C (sharp)", "share_flat": "at D (flat)", "share_moving": "still moving"}.items()
    ):
        right.plot(
            ends["learning_rate"], 100 * ends[column], color=PALETTE[number], marker=MARKERS[number], label=label
        )
    reference_line(right, x=2 / float(ends["curvature_sharp"].iloc[0]), label="2/f″ at C and at D")
    reference_line(right, x=2 / float(ends["curvature_flat"].iloc[0]), label="_2/f″ at D")
    log_axis(right, "x", ticks=[0.01, 0.1, 1, 4])
    right.set(title="Where it ends", xlabel="learning rate η", ylabel="starts (%)", ylim=(-6, 160))
    right.set_yticks(range(0, 101, 20))
    right.legend(loc="upper left", fontsize=9, ncols=2)
    figure.suptitle("Fig. 13: gradient descent with a large learning rate")
    return figure
