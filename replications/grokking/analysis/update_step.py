"""One update step on a loss with a sharp wall: the spread of the step, and the picture."""

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, note, subplots

from ..shared.sharp_wall import loss
from .shared.perturbation_rules import COLOURS, RULES


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a rule: the spread of its gradient over draws, and its share of that of the one-sided gradient."""
    table = records.set_index("run")[["spread"]].copy()
    table["spread_share"] = table["spread"] / records.loc[records["rule"] == "wp_sgd", "spread"].mean()
    table["regime_reached"] = True
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Left: one step on the contours of the loss. Right: mean and spread of the gradient by rule."""
    figure, (left, right) = subplots(1, 2, size=(8.4, 4.2), gridspec_kw={"width_ratios": [1.45, 1]})
    row = records.iloc[0]
    start = np.array([row["start_x"], row["start_y"]])
    noise = np.array([row["shown_x"], row["shown_y"]])
    slopes = {name: np.array([row[f"{name}_x"], row[f"{name}_y"]]) for name in ("at", "plus", "minus")}
    _contours(left, start)
    scale = 0.22
    points = {"plus": start + noise, "minus": start - noise}
    left.plot(*zip(points["minus"], points["plus"], strict=True), color="#5c6674", linestyle=(0, (4, 3)), label="_U")
    for name, point in points.items():
        _arrow(left, point, -scale * slopes[name], PALETTE[1])
        left.plot(*point, MARKERS[0], color=PALETTE[1], label=f"_{name}")
        offset = (8, 6) if name == "plus" else (8, -14)
        left.annotate("W + U" if name == "plus" else "W − U", point, offset, textcoords="offset points", fontsize=10)
    _arrow(left, start, -scale * (slopes["plus"] + slopes["minus"]) / 2, PALETTE[0])
    left.plot(*start, MARKERS[1], color=PALETTE[0], label="_W")
    left.annotate("W", start, (-16, 6), textcoords="offset points", fontsize=10)
    left.set(xlabel="$w_1$", ylabel="$w_2$", title="One step: blue is the mean of both")
    left.grid(visible=False)
    table = records.set_index("rule").reindex([rule for rule in RULES if (records["rule"] == rule).any()])
    right.bar(range(len(table)), table["spread"], color=[COLOURS[rule] for rule in table.index], width=0.6)
    right.set_xticks(range(len(table)), [RULES[rule].replace(" (", "\n(") for rule in table.index])
    right.set(ylabel="standard deviation of the gradient", title="Spread over draws of U")
    figure.suptitle("Figure 2 · one update step with noise injection", x=0.01, ha="left")
    note(figure, "the loss is ours; the talk's drawing gives none", "illustration")
    return {"fig2_update_step": figure}


def _contours(axes: Axes, start: np.ndarray) -> None:
    x, y = np.linspace(-0.4, 2.0, 81), np.linspace(-0.9, 1.9, 81)
    grid = torch.from_numpy(np.stack(np.meshgrid(x, y), axis=-1))
    values = loss(grid).numpy()
    axes.contour(x, y, values, levels=float(values.max()) * np.linspace(0.02, 0.9, 12) ** 2, linewidths=0.7, alpha=0.7)
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


def _arrow(axes: Axes, origin: np.ndarray, way: np.ndarray, colour: str) -> None:
    axes.annotate(
        "",
        tuple(origin + way),
        tuple(origin),
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2, "shrinkA": 0},
    )
