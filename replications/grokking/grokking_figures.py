"""Accuracy over steps, fluctuation and curvature of training runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from common.figures import PALETTE, mean_band, note, placeholder, subplots

from .grokking_analysis import GROKKED, run_metrics

PANELS = {
    "none": "a · no weight decay",
    "small_decay": "b · small weight decay",
    "large_decay": "c · large weight decay",
    "large_decay_nso": "d · large decay, noise (NSO)",
    "large_decay_wp_sgd": "control · large decay, WP-SGD",
    "large_decay_half_lr": "control · half the learning rate",
}
SHORT = {
    "none": "no decay",
    "small_decay": "small decay",
    "large_decay": "large decay",
    "large_decay_nso": "… and NSO",
    "large_decay_wp_sgd": "… and WP-SGD",
    "large_decay_half_lr": "… half rate",
}
POINTS = 44
"""Points a curve keeps, evenly spread over the logarithm of the step, with the extremes between them."""


def addition_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Figure 4, the fluctuation of each arm, and the Hessian along the way."""
    records = records[records["arm"].isin(PANELS)]
    arms = [arm for arm in PANELS if (records["arm"] == arm).any()]
    return {
        "fig4": _panels(records, "arm", {arm: PANELS[arm] for arm in arms}, "Figure 4 · accuracy modulo {modulus}"),
        "fig4_fluctuation": _fluctuation(records, arms),
        "fig4_hessian": _curvature(records, arms),
    }


def _panels(records: pd.DataFrame, axis: str, titles: dict[Any, str], title: str) -> Figure:
    """A panel for each value of `axis`: training and validation accuracy of every seed over the step."""
    count = len(titles)
    figure, panels = subplots(
        -(-count // 2), 2, size=(7.6, 2.3 * -(-count // 2) + 0.7), sharex=True, sharey=True, squeeze=False
    )
    for axes in panels.flat[count:]:
        axes.set_axis_off()
    for axes, (value, name) in zip(panels.flat, titles.items(), strict=False):
        part = records[(records[axis] == value) & (records["kind"] == "evaluation") & (records["step"] >= 10)]
        draw_accuracies(axes, part)
        axes.set_title(name)
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy (%)")
    for axes in panels.flat[max(count - 2, 0) : count]:
        axes.set_xlabel("steps")
        axes.tick_params(labelbottom=True)
    figure.suptitle(title.format(modulus=int(records["modulus"].iloc[0])), x=0.01, ha="left")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2)
    _say_setting(figure, records)
    return figure


def draw_accuracies(axes: Axes, looks: pd.DataFrame) -> None:
    """Training and validation accuracy in %, one thin line a seed, over a logarithmic step."""
    kinds = {"training": (PALETTE[1], 1), "validation": (PALETTE[0], 2)}
    for kind, (colour, order) in kinds.items():
        for number, (_, curve) in enumerate(looks.sort_values("step").groupby("run", sort=False)):
            steps, values = thinned(curve["step"].to_numpy(), 100 * curve[f"{kind}_accuracy"].to_numpy())
            label = kind if number == 0 else f"_{kind} {number}"
            axes.plot(steps, values, color=colour, linewidth=1, alpha=0.75, zorder=order, label=label)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-3, 104)
    axes.axhline(100 * GROKKED, color="#5c6674", linewidth=0.8, linestyle=(0, (4, 3)), label="_99 %", marker="")


def thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each of `POINTS` equal parts of the logarithm of the step the lowest and the highest value."""
    if len(steps) <= POINTS:
        return steps, values
    parts = np.digitize(np.log(steps), np.linspace(np.log(steps[0]), np.log(steps[-1]), POINTS // 2 + 1)[1:-1])
    kept: set[int] = {0, len(steps) - 1}
    for part in np.unique(parts):
        inside = np.flatnonzero(parts == part)
        kept |= {int(inside[values[inside].argmin()]), int(inside[values[inside].argmax()])}
    order = sorted(kept)
    return steps[order], values[order]


def _fluctuation(records: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Every seed: time to grok, fluctuation after it, drops, fluctuation at the end."""
    table = run_metrics(records).join(records.groupby("run", sort=False)["arm"].first())
    columns = {
        "time_to_grok": "steps to 99 %",
        "fluctuation": "fluctuation after\n99 % (points)",
        "drops": "drops by more\nthan 5 points",
        "late_fluctuation": "fluctuation at\nthe end (points)",
    }
    return dots(table, "arm", arms, columns, SHORT, "Figure 4 · time to grok and fluctuation", records)


def dots(
    table: pd.DataFrame,
    axis: str,
    values: Sequence[Any],
    columns: dict[str, str],
    names: dict[Any, str],
    title: str,
    records: pd.DataFrame,
) -> Figure:
    """A panel a measure, a row a setting: a point a seed, a bar at the mean; what has no value says so."""
    figure, panels = subplots(1, len(columns), size=(8.4, 0.45 * len(values) + 1.9), sharey=True)
    shades = {value: PALETTE[place % len(PALETTE)] for place, value in enumerate(values)}
    for axes, (column, label) in zip(panels, columns.items(), strict=True):
        for row, value in enumerate(values):
            known = table.loc[table[axis] == value, column].dropna()
            spread = np.linspace(-0.18, 0.18, len(known)) if len(known) > 1 else np.zeros(len(known))
            axes.plot(known, row + spread, "o", color=shades[value], label=f"_{value}")
            if len(known):
                axes.plot([known.mean()] * 2, [row - 0.32, row + 0.32], color=shades[value], label=f"_{value}, mean")
            else:
                axes.text(0.5, row, "none", transform=axes.get_yaxis_transform(), va="center", ha="center", fontsize=9)
        if not table[column].notna().any():
            axes.set_xlim(0, 1)
        axes.set_title(label, fontsize=10, fontweight="normal")
        axes.set_yticks(range(len(values)), [names.get(value, str(value)) for value in values])
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.locator_params(axis="x", nbins=4)
    panels[0].set_ylim(len(values) - 0.5, -0.5)
    figure.suptitle(title, x=0.01, ha="left")
    _say_setting(figure, records)
    return figure


def _curvature(records: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Tr H on training and validation pairs, λ₁, and Tr H per nat of loss along the run, geometric means over seeds.

    Times at which a value of some seed is not positive, as early in training, are left out.
    """
    rows = records[(records["kind"] == "curvature") & (records["step"] > 0)].copy()
    rows["per_nat"] = rows["trace"] / rows["curvature_loss"].where(rows["curvature_loss"] > 0)
    columns = {
        "trace": "Tr H, training",
        "validation_trace": "Tr H, validation",
        "sharpness": "λ₁, training",
        "per_nat": "Tr H / loss, training (1/nat)",
    }
    every = rows[list(columns)].gt(0).all(axis=1).groupby([rows["arm"], rows["step"]]).transform("all")
    if rows.empty or not every.any():
        return placeholder("Figure 4 · the Hessian along the run", "No run has a positive trace.")
    rows["share"] = (100 * rows["step"] / (rows["steps"] * rows["lengthening"])).round()
    figure, panels = subplots(2, 2, size=(7.6, 6.2), sharex=True)
    rows["name"] = rows["arm"].map(SHORT)
    ordered = pd.concat([rows[every & (rows["arm"] == arm)] for arm in arms])
    for axes, (column, label) in zip(panels.flat, columns.items(), strict=True):
        mean_band(axes, ordered, "share", column, group="name", markers=True, log=True)
        axes.set_yscale("log")
        axes.set_title(label)
        axes.set_xlabel("share of the run (%)" if axes in panels[-1] else "")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, title="geometric means, 95 %")
    _say_setting(figure, records)
    return figure


def operation_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy and fluctuation for each operation, with and without noise."""
    signs = {"add": "a + b", "subtract": "a − b", "multiply": "a · b", "divide": "a / b"}
    arms = {"large_decay": "", "large_decay_nso": ", NSO"}
    both = records.assign(
        setting=records["operation"].map(signs) + records["arm"].map(arms),
    )
    settings = [f"{sign}{arm}" for sign in signs.values() for arm in arms.values()]
    settings = [setting for setting in settings if (both["setting"] == setting).any()]
    table = run_metrics(both).join(both.groupby("run", sort=False)["setting"].first())
    columns = {
        "time_to_grok": "steps to 99 %",
        "fluctuation": "fluctuation after\n99 % (points)",
        "drops": "drops by more\nthan 5 points",
    }
    return {
        "operations": _panels(both, "setting", {name: name for name in settings}, "Operations modulo {modulus}"),
        "operations_fluctuation": dots(
            table, "setting", settings, columns, {}, "Operations · time to grok and fluctuation", records
        ),
    }


def noise_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Time to grok, fluctuation and Tr H over σ; σ = 0 is training without noise."""
    table = run_metrics(records).join(records.groupby("run", sort=False)[["noise_scale", "rule"]].first())
    table["scale"] = np.where(table["rule"] == "plain", 0.0, table["noise_scale"])
    table["trace"] = 10 ** table["log_trace"]
    columns = {
        "time_to_grok": "steps to 99 %",
        "fluctuation": "fluctuation after 99 % (points)",
        "final_accuracy": "final accuracy (%)",
        "trace": "Tr H, last third",
    }
    figure, panels = subplots(2, 2, size=(7.6, 5.6))
    places = sorted(table["scale"].unique())
    for axes, (column, label) in zip(panels.flat, columns.items(), strict=True):
        for place, scale in enumerate(places):
            known = table.loc[table["scale"] == scale, column].dropna()
            spread = np.linspace(-0.12, 0.12, len(known)) if len(known) > 1 else np.zeros(len(known))
            axes.plot(place + spread, known, "o", color=PALETTE[0], label="_seeds")
            if len(known):
                axes.plot([place - 0.25, place + 0.25], [known.mean()] * 2, color=PALETTE[0], label="_mean")
        axes.set_xticks(range(len(places)), [f"{scale:g}" if scale else "none" for scale in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_title(label)
        if column == "trace" and (table["trace"] > 0).any():
            axes.set_yscale("log")
    for axes in panels[1]:
        axes.set_xlabel("σ of the noise (NSO)")
    figure.suptitle("Noise of different size, large weight decay", x=0.01, ha="left")
    _say_setting(figure, records)
    return {"noise_scale": figure}


def control_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy over steps in the arms of the controls."""
    names = {
        "true_answers": "true answers",
        "true_answers_again": "true answers, table divided anew",
        "shuffled_answers": "shuffled training answers",
    }
    titles = {arm: name for arm, name in names.items() if (records["arm"] == arm).any()}
    return {"controls": _panels(records, "arm", titles, "Controls · accuracy modulo {modulus}")}


def _say_setting(figure: Figure, records: pd.DataFrame) -> None:
    first = records.iloc[0]
    layers, width, batch = (int(first[name]) for name in ("layers", "width", "batch_size"))
    if layers < 2 or width < 128:
        seeds = records["seed"].nunique()
        shown = f"{seeds} seeds" if seeds > 1 else "one seed"
        note(figure, f"D2: {layers} layer of width {width}, batches of {batch}; {shown}", "reduced")
