"""Figures of the update step, of the variance of gradients, and of matrix sensing."""

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, log_axis, mean_band, note, subplots

from .sharp_wall import loss

RULES = {"plain": "no noise", "nso": "NSO (both sides)", "wp_sgd": "WP-SGD (one side)"}
COLOURS = dict(zip(RULES, (PALETTE[5], PALETTE[0], PALETTE[1]), strict=True))


def update_step_figures(records: pd.DataFrame) -> dict[str, Figure]:
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


def variance_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Variance over σ, a panel a loss, with what theory gives dashed."""
    systems = list(dict.fromkeys(records["system"]))
    figure, panels = subplots(1, len(systems), size=(9.0, 4.2), squeeze=False)
    for axes, system in zip(panels[0], systems, strict=True):
        rows = records[records["system"] == system]
        for number, rule in enumerate(("nso", "wp_sgd")):
            part = rows[rows["rule"] == rule]
            lines = mean_band(axes, part, "sigma", "variance", log=True, markers=True)
            lines[None].set(color=COLOURS[rule], marker=MARKERS[number], label=RULES[rule])
            for band in axes.collections[number:]:
                band.set_color(COLOURS[rule])
            theory = part.groupby("sigma")["theory"].mean().dropna()
            if len(theory):
                axes.plot(theory.index, theory, color="#5c6674", linestyle=(0, (4, 3)), marker="", label="theory")
        log_axis(axes, "x")
        axes.set_yscale("log")
        axes.set_title(str(system))
        axes.set_xlabel("σ")
    panels[0][0].set_ylabel("total variance of the gradient")
    handles, labels = panels[0][0].get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside upper left", ncols=3, title="two gradients each")
    return {"gradient_variance": figure}


def sensing_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Loss, exact Tr H and recovery error over gradients, geometric means over seeds."""
    columns = {"training_loss": "training loss", "trace": "Tr H", "recovery_error": "relative error of $WW^T$"}
    figure, panels = subplots(1, 3, size=(9.0, 3.9))
    rows = records[records["trace"] > 0].assign(name=records["rule"].map(RULES))
    ordered = pd.concat([rows[rows["rule"] == rule] for rule in RULES])
    for axes, (column, label) in zip(panels, columns.items(), strict=True):
        mean_band(axes, ordered, "gradients", column, group="name", log=True)
        axes.set_yscale("log")
        axes.set_title(label)
        axes.set_xlabel("gradients")
        axes.locator_params(axis="x", nbins=4)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, title="Matrix sensing; geometric means, 95 %")
    return {"matrix_sensing": figure}
