"""λ₁ along gradient descent and where it stays: a row a run, Fig. 14 and Table 1."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from common.figures import IN_REGIME, PALETTE, abreast, log_axis, mark_seed, note, points, subplots
from common.figures.style import FACE

LATE = 10.0
"""The late mean of λ₁ is taken from when the loss first is at most so many times the loss at which training ends."""
PUBLISHED = {
    "fashion_mnist": {
        0.01: (53.48, 4.3), 0.05: (39.32, 0.52), 0.1: (19.62, 0.15), 0.5: (3.857, 0.025), 1.0: (1.925, 0.024),
    },
    "cifar10": {0.01: (198.9, 0.62), 0.05: (39.77, 0.27), 0.1: (19.77, 0.15), 0.5: (3.644, 0.43)},
}  # fmt: skip
"""Mean and standard deviation of λ₁ over the authors' five runs: Table 1 with more digits."""
TITLES = {"fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10, two classes"}
UNFINISHED: dict[str, Any] = {"linestyle": "none", "marker": "o", "markerfacecolor": FACE, "markeredgewidth": 1.2}
"""The end of a curve that is no result."""

TICKS = (0.2, 0.5, 1, 2, 4, 10, 20, 40, 100, 200)
"""Of λ₁: round numbers, 2/η of the learning rates of Table 1 among them."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns: `sharpness`, λ₁ of the solution; `late_sharpness`, its mean from when the loss was at most ten times that
    at which training ends, unweighted over measurements at equal distances; `final_ratio` and `edge_ratio`, the two
    over 2/η; `peak_ratio`, the largest on the way over 2/η; `log_rise`, log of the late mean over λ₁ at the start;
    `test_accuracy`; `steps`; `regime_reached`: the loss was reached.
    """
    rows = [{"run": run, **_measures(part)} for run, part in records.groupby("run", sort=False)]
    return pd.DataFrame(rows).set_index("run")


def _measures(part: pd.DataFrame) -> dict[str, float | bool]:
    along, end = part[part["kind"] == "along"].sort_values("step"), part[part["kind"] == "end"]
    setting = part.iloc[0]
    edge = 2 / float(setting["learning_rate"])
    late = along.loc[along["loss"] <= LATE * setting["stopping_loss"], "sharpness"].mean()
    found: dict[str, float | bool] = {
        "late_sharpness": float(late),
        "edge_ratio": float(late / edge),
        "peak_ratio": float(along["sharpness"].max() / edge),
        "log_rise": float(np.log(late / along["sharpness"].iloc[0])),
    }
    if end.empty:  # it diverged
        return {**found, "sharpness": np.nan, "final_ratio": np.nan, "test_accuracy": np.nan, "regime_reached": False}
    last = end.iloc[0]
    return {
        **found,
        "sharpness": float(last["sharpness"]),
        "final_ratio": float(last["sharpness"] / edge),
        "test_accuracy": float(last["test_accuracy"]),
        "steps": float(last["step"]),
        "regime_reached": bool(last["stopped"]),
    }


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`table1` and `fig14`."""
    return {"fig14": _along(records), "table1": _table(records)}


def _panels(records: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The records by data set and number of images, each under its title."""
    panels = {}
    for name, title in TITLES.items():
        of_set = records[records["dataset"] == name]
        for count, part in sorted(of_set.groupby("training_images"), reverse=True):
            panels[f"{title}, {count:,.0f} images"] = part
    return panels


def _along(records: pd.DataFrame) -> Figure:
    """λ₁ against η × steps, every seed, with 2/η dashed in the colour of its η."""
    parts = _panels(records)
    figure, panels = subplots(len(parts), 1, size=(5.6, 1.2 + 2.6 * len(parts)), squeeze=False)
    rates = sorted(records["learning_rate"].unique(), reverse=True)
    printed = {rate for rows in PUBLISHED.values() for rate in rows}
    colour = dict(zip(sorted(printed | set(rates), reverse=True), PALETTE, strict=False))
    for axes, (title, part) in zip(panels[:, 0], parts.items(), strict=True):
        along = part[part["kind"] == "along"]
        for rate in [rate for rate in rates if (along["learning_rate"] == rate).any()]:
            for _, curve in along[along["learning_rate"] == rate].groupby("run"):
                curve = curve.sort_values("step")
                look = {"color": colour[rate], "linewidth": 0.9, "alpha": 0.8}
                mark_seed(axes.plot(curve["step"] * rate, curve["sharpness"], **look), curve["seed"].iloc[0])
                if curve["standing"].iloc[0] != IN_REGIME:
                    last = curve.iloc[-1]
                    axes.plot(last["step"] * rate, last["sharpness"], color=colour[rate], **UNFINISHED)
            axes.axhline(2 / rate, color=colour[rate], linestyle=(0, (4, 3)), linewidth=1.2)
        log_axis(axes, "y", ticks=TICKS)
        axes.set(title=f"Fig. 14 · {title}", ylabel="λ₁ of the Hessian", xlabel="η × steps")
    handles = [Line2D([], [], color=colour[rate], label=f"η = {rate:g}") for rate in rates]
    handles.append(Line2D([], [], color="grey", linestyle=(0, (4, 3)), label="2/η"))
    if (records["standing"] != IN_REGIME).any():
        handles.append(Line2D([], [], color="grey", label="ended before its loss was reached", **UNFINISHED))
    figure.legend(handles=handles, loc="outside upper left", ncols=3)
    _say_what_differs(figure, records)
    return figure


def _table(records: pd.DataFrame) -> Figure:
    """λ₁ of solutions over 2/η: ours, a point a seed, beside the authors'; below the same as a table of λ₁."""
    table = metrics(records).join(
        records.groupby("run", sort=False)[["dataset", "learning_rate", "training_images", "standing"]].first()
    )
    names = [name for name in TITLES if name in set(table["dataset"])]
    rows = sum(2 + len(PUBLISHED[name]) for name in names)
    figure, panels = subplots(
        2, len(names), size=(1.4 + 3.9 * len(names), 4.4 + 0.16 * rows), squeeze=False, height_ratios=[1.7, 1]
    )
    for column, name in enumerate(names):
        _ratios(panels[0, column], table[table["dataset"] == name], name)
        _numbers(panels[1, column], table[table["dataset"] == name], name)
    panels[0, 0].set_ylabel("λ₁ / (2/η)")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside upper left",
        ncols=2,
        title="Table 1 · sharpness over its bound",
    )
    _say_what_differs(figure, records)
    return figure


def _ratios(axes: Axes, table: pd.DataFrame, name: str) -> None:
    published = PUBLISHED[name]
    rates = sorted({*published, *table["learning_rate"]})
    place = {rate: number for number, rate in enumerate(rates)}
    for number, (rate, part) in enumerate(table.groupby("learning_rate")):
        shown = part.dropna(subset="final_ratio")
        spread = abreast(len(shown), 0.2)
        label = "ours, solution of each seed" if number == 0 else "_more"
        shown = shown.assign(place=place[float(rate)] - 0.15 + spread)  # type: ignore[arg-type]
        points(axes, shown, "place", "final_ratio", color=PALETTE[0], label=label)
    axes.errorbar(
        [place[rate] + 0.2 for rate in published],
        [mean * rate / 2 for rate, (mean, _) in published.items()],
        [sd * rate / 2 for rate, (_, sd) in published.items()],
        fmt="s",
        color=PALETTE[1],
        capsize=3,
        label="the authors, mean ± sd of 5",
    )
    axes.axhline(1, color="grey", linestyle=(0, (4, 3)), linewidth=1.2)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set(xlabel="learning rate η", title=TITLES[name], ylim=(0, 1.35), xlim=(-0.5, len(rates) - 0.5))


def _numbers(axes: Axes, table: pd.DataFrame, name: str) -> None:
    """λ₁ of solutions by learning rate: the bound, the authors' and ours, mean ± standard deviation over seeds.

    Ours of fewer images than most say of how many.
    """
    cells, most = [], table["training_images"].max()
    solutions = table[table["standing"] == IN_REGIME].dropna(subset="sharpness")
    for rate in sorted({*PUBLISHED[name], *table["learning_rate"]}):
        own = solutions[solutions["learning_rate"] == rate]
        ours = f"{own['sharpness'].mean():.4g}" if len(own) else "–"
        ours += f" ± {own['sharpness'].std():.2g}" if len(own) > 1 else ""
        ours += f", {own['training_images'].max():,.0f} images" if own["training_images"].max() < most else ""
        published = PUBLISHED[name].get(rate)
        theirs = f"{published[0]:g} ± {published[1]:g}" if published else "–"
        cells.append([f"{rate:g}", f"{2 / rate:g}", theirs, ours])
    axes.set_axis_off()
    drawn = axes.table(
        cells,
        colLabels=["η", "2/η", "authors", "ours"],
        colWidths=[0.14, 0.14, 0.36, 0.36],
        loc="center",
        cellLoc="center",
        edges="horizontal",
    )
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(9.5)
    drawn.scale(1, 1.35)


def _say_what_differs(figure: Figure, records: pd.DataFrame) -> None:
    """Where the setting is not the authors'."""
    fashion = records[records["dataset"] == "fashion_mnist"]
    counts = sorted(fashion["training_images"].unique(), reverse=True)
    if counts and counts[0] < 1000:
        one = fashion.iloc[0]
        hidden = f"{one['hidden_layers']:.0f} × {one['width']:.0f}"
        text = f"Fashion-MNIST: {counts[0]:.0f} of the authors' 1,000 images, {hidden} hidden units, not 3 × 500 (D1)"
        note(figure, text, "reduced")
    if len(counts) > 1:
        rates = fashion.loc[fashion["training_images"] == counts[-1], "learning_rate"].unique()
        note(figure, f"{counts[-1]:.0f} images for η = {', '.join(f'{rate:g}' for rate in rates)} (D1)", "reduced")
    cifar = records[records["dataset"] == "cifar10"]
    if len(cifar) and cifar["training_images"].iloc[0] < 1000:
        note(figure, f"CIFAR-10: {cifar['training_images'].iloc[0]:.0f} of the authors' 1,000 images (D1)", "reduced")
