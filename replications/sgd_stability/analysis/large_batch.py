"""From the records of the batch-size comparison to one row a run, and figures."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import IN_REGIME, MARKERS, PALETTE, abreast, note, subplots
from common.figures.standing import hollow_markers

FITTED = 0.01
"""Share of wrong training labels up to which a run counts as trained (Table 2: 0.1 to 1.7 %)."""
TINY = 1e-8
EPSILONS = {"0.001": "", "0.0005": "_half"}
REPORTED = {  # Tables 2 and 4: small batch, large batch
    "F1": {"0.001": (0.11, 9.22), "0.0005": (0.05, 9.17), "training": (99.66, 99.92), "test": (98.03, 97.81)},
    "C1": {"0.001": (2.18, 137.25), "0.0005": (0.71, 29.50), "training": (99.89, 99.66), "test": (80.04, 77.26)},
}
IMAGES = {"F1": 60_000, "C1": 50_000}
ARMS = {"small": "small batch", "large": "large batch"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `…log10_sharpness…` is of the ε-sharpness of Keskar et al. in per cent, of at least 1e-8; `…_half` has ε = 5e-4,
    `crossing_…` is at the first passing of the training loss that a run's setting names (NaN if it never passed).
    """
    end = records[records["kind"] == "end"].set_index("run")
    table = pd.DataFrame(index=pd.Index(records["run"].unique(), name="run"))
    table["training_accuracy"], table["test_accuracy"] = 1 - end["training_error"], 1 - end["test_error"]
    table["error_gap"] = end["test_error"] - end["training_error"]
    table["loss_gap"] = end["test_loss"] - end["training_loss"]
    table["test_loss"] = end["test_loss"]
    crossing = records[records["kind"] == "crossing"].set_index("run")
    for prefix, rows in (("", end), ("crossing_", crossing)):
        for epsilon, suffix in EPSILONS.items():
            if prefix == "" or suffix == "":
                table[f"{prefix}log10_sharpness{suffix}"] = _log10(rows[f"sharpness_{epsilon}"])
        table[f"{prefix}log10_lambda_1"] = _log10(rows["lambda_1"])
        table[f"{prefix}log10_trace"] = _log10(rows["trace"])
        table[f"{prefix}training_loss"] = rows["training_loss"]
        table[f"{prefix}log10_training_loss"] = _log10(rows["training_loss"])
    table["crossing_test_accuracy"], table["crossing_test_loss"] = 1 - crossing["test_error"], crossing["test_loss"]
    table["regime_reached"] = (end["training_error"] <= FITTED).reindex(table.index, fill_value=False)
    return table


def _log10(values: pd.Series) -> pd.Series:
    return values.clip(lower=TINY).map(np.log10)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`table4` (ε-sharpness at the end and at equal training loss) and `table2` (accuracies), the first network's."""
    network = str(records["network"].iloc[0])
    rows = records[(records["network"] == network) & records["arm"].isin(ARMS)]
    drawn = {"table4": _sharpness(rows, network), "table2": _accuracies(rows, network)}
    for figure in drawn.values():
        note_size(figure, network, int(rows["training_images"].iloc[0]))
    return drawn


def note_size(figure: Figure, network: str, images: int) -> None:
    """Say of how many training images the networks are, or what else of them differs."""
    if images == IMAGES[network]:
        note(figure, "no batch normalisation (D40)", "deviation")
        return
    smaller = ", smaller network (D40, D41)" if network == "F1" else " (D41)"
    note(figure, f"{images:,} of {IMAGES[network]:,} training images{smaller}", "reduced")


def _sharpness(rows: pd.DataFrame, network: str) -> Figure:
    figure, axes = subplots(1, 2, size=(6.8, 4.2), sharey=True, gridspec_kw={"width_ratios": [5, 3]})
    titles = {"end": f"Table 4, {network}: at the end", "crossing": "at equal training loss"}
    for axis, (kind, title) in zip(axes, titles.items(), strict=True):
        part = rows[rows["kind"] == kind]
        for number, epsilon in enumerate(EPSILONS if kind == "end" else list(EPSILONS)[:1]):
            for place, arm in enumerate(ARMS):
                chosen = part[part["arm"] == arm]
                _seeds(axis, 3 * number + place, chosen[f"sharpness_{epsilon}"].clip(lower=TINY), place, chosen)
                if kind == "end":
                    _reported(axis, 3 * number + place, REPORTED[network][epsilon][place])
        axis.set_yscale("log")
        ticks = [0.5, 3.5] if kind == "end" else [0.5]
        axis.set(title=title, xlim=(-0.7, ticks[-1] + 1.2))
        axis.set_xticks(ticks, ["ε = 0.001", "ε = 0.0005"][: len(ticks)])
    axes[0].set_ylabel("ε-sharpness of Keskar et al. (%)")
    _legend(figure, axes[0])
    return figure


def _accuracies(rows: pd.DataFrame, network: str) -> Figure:
    figure, axes = subplots(1, 2, size=(6.8, 3.9))
    end = rows[rows["kind"] == "end"]
    for axis, (split, column) in zip(axes, {"training": "training_error", "test": "test_error"}.items(), strict=True):
        for place, arm in enumerate(ARMS):
            chosen = end[end["arm"] == arm]
            _seeds(axis, place, 100 * (1 - chosen[column]), place, chosen)
            _reported(axis, place, REPORTED[network][split][place])
        axis.set_xticks(range(2), list(ARMS.values()))
        axis.set(title=f"Table 2, {network}: {split}", xlim=(-0.6, 1.6))
    axes[0].set_ylabel("accuracy (%)")
    _legend(figure, axes[0])
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    """Small batch, large batch, then the paper's numbers."""
    named = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda pair: "paper" in pair[1])
    figure.legend(*zip(*named, strict=True), loc="outside upper center", ncols=3)


def _seeds(axes: Axes, place: float, values: pd.Series, arm: int, rows: pd.DataFrame) -> None:
    """A column of points, one a seed; hollow if its run is outside its regime."""
    style: dict[str, Any] = {"color": PALETTE[arm], "marker": MARKERS[arm], "linestyle": "none", "alpha": 0.75}
    offsets = abreast(len(values), 0.36)
    label = list(ARMS.values())[arm] if place < 2 else f"_{arm}"
    (line,) = axes.plot(place + offsets, values.to_numpy(), label=label, markersize=5.5, **style)
    hollow_markers(axes, line, (rows["standing"] == IN_REGIME).to_numpy())


def _reported(axes: Axes, place: float, value: float) -> None:
    label = "the paper's mean, all images" if place == 0 else "_reported"
    axes.plot(
        [place + 0.32],
        [value],
        "D",
        color="none",
        markeredgecolor="#5c6674",
        markeredgewidth=1.4,
        markersize=7,
        label=label,
    )
