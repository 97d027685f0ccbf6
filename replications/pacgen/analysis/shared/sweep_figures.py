"""Figures of the sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from common.figures import log_axis, mean_band, note, placeholder, subplots

from .sweep_metrics import ARM, READINGS, losses_of, sweep_metrics


@dataclass(frozen=True)
class _Paper:
    """What the paper's figure has, and the deviations that say what ours has instead."""

    title: str
    images: int
    images_deviation: str
    values_deviation: str
    batch_size: int = 256


PAPERS = {"mnist": _Paper("MNIST", 60_000, "D2", "D4"), "cifar10": _Paper("CIFAR-10", 50_000, "D17", "D18")}


NESTED = {"psi_floor": (6.0, 0.0), "psi_hessian_norm_rho": (2.4, 10.0), "psi_no_rho": (1.0, 5.0)}
"""Widths of line and marker of the readings that lie on the floor, from below: each shows over the one before."""


NAMES = {"batch_size": "batch size", "learning_rate": "learning rate"}


SETTINGS = {"batch_size": "batch size (images)", "learning_rate": "learning rate"}


GAP_AND_PSI = (("gap", "test loss − training loss (nats)"), ("psi", "Ψ (thousand nats)"))


def sweep_figures(records: pd.DataFrame, axis: str, name: str) -> dict[str, Figure]:
    """The paper's figure (`name`) and three of ours, for a sweep over `axis`; a column of panels for each momentum."""
    paper = PAPERS[str(records["dataset"].iloc[0])]
    table = _by_setting(records, axis)
    matched = losses_of(records).matched
    figures = {
        name: _over_epochs(records, axis, f"Fig. {name.removeprefix('fig')} · gap and Ψ on {paper.title}"),
        f"{name}_matched_loss": _matched(table, axis, matched),
        f"{name}_readings": _readings(table, axis),
        f"{name}_curvature": _curvature(table, axis, matched),
    }
    text = _what_differs(records, axis, paper)
    kind: Literal["illustration", "reduced", "deviation"] = "deviation"
    if int(records["training_images"].iloc[0]) < paper.images:
        kind = "illustration" if records["seed"].nunique() == 1 else "reduced"
    for figure in figures.values():
        note(figure, text, kind)
    return figures


def _what_differs(records: pd.DataFrame, axis: str, paper: _Paper) -> str:
    """What the figure shows other than the paper's: images, batch, swept values."""
    images = int(records["training_images"].iloc[0])
    parts = []
    if images < paper.images:
        parts.append(f"{images:,} of {paper.images:,} training images ({paper.images_deviation})")
    if axis == "learning_rate" and (batch := int(records["batch_size"].iloc[0])) != paper.batch_size:
        parts.append(f"batch {batch} instead of {paper.batch_size} ({paper.values_deviation})")
    if records["seed"].nunique() == 1:
        parts.append("one seed")
    values = sorted(records[axis].unique())
    parts.append(f"{NAMES[axis]} {values[0]:g} to {values[-1]:g}, values ours ({paper.values_deviation})")
    return "; ".join(parts)


def _by_setting(records: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The metrics of `sweep_metrics` with the setting, momentum and seed of each run."""
    axes = records.groupby("run", sort=False)[[axis, *ARM]].first()
    return sweep_metrics(records, axis).join(axes).reset_index()


@dataclass(frozen=True)
class _Column:
    """The panels of one momentum from the top, its part of the frame, and whether it stands on the left."""

    panels: list[Axes]
    frame: pd.DataFrame
    leftmost: bool

    def label(self, axes: Axes, text: str) -> None:
        if self.leftmost:
            axes.set_ylabel(text)


def _columns(frame: pd.DataFrame, rows: int, size: tuple[float, float], title: str) -> tuple[Figure, list[_Column]]:
    """A figure with `rows` panels for each momentum: its panels from the top, and its part of the frame."""
    momenta = sorted(frame["momentum"].unique())
    width = size[0] if len(momenta) == 1 else 4.2 * len(momenta)
    figure, panels = subplots(rows, len(momenta), size=(width, size[1]), sharex=True, sharey="row", squeeze=False)
    columns = []
    for number, momentum in enumerate(momenta):
        heading = title if number == 0 else ""
        panels[0, number].set_title(heading if len(momenta) == 1 else f"{heading}\nmomentum {momentum:g}".lstrip())
        columns.append(_Column(list(panels[:, number]), frame[frame["momentum"] == momentum], number == 0))
    return figure, columns


def _over_epochs(records: pd.DataFrame, axis: str, title: str) -> Figure:
    """Gap above, Ψ below, one line a setting: mean over seeds with the 95 % interval of the mean."""
    planned = records[records["kind"] == "epoch"]
    ordered = planned.assign(psi=planned["psi"] / 1000).sort_values([axis, "epoch"])
    figure, columns = _columns(ordered, 2, (5.6, 6.4), title)
    for column in columns:
        for axes, (measure, label) in zip(column.panels, GAP_AND_PSI, strict=True):
            mean_band(axes, column.frame, "epoch", measure, group=axis, markers=True)
            column.label(axes, label)
        column.panels[-1].set_xlabel("epochs")
    _legend_above(figure, columns, f"{SETTINGS[axis]}; bands: 95 %", ncols=3)
    return figure


def _matched(table: pd.DataFrame, axis: str, level: float) -> Figure:
    """Gap and Ψ by setting, after equal epochs and at equal training loss."""
    if table["matched_gap"].isna().all():
        return placeholder("At equal training loss", f"No run passes a training loss of {level:g}.")
    table = table.assign(psi=table["psi"] / 1000, matched_psi=table["matched_psi"] / 1000)
    figure, columns = _columns(table, 2, (5.6, 6.2), f"Gap and Ψ by {NAMES[axis]} at equal training loss")
    for column in columns:
        for axes, (measure, label) in zip(column.panels, GAP_AND_PSI, strict=True):
            pairs = {measure: "after equal epochs", f"matched_{measure}": _at(level)}
            _lines(axes, column.frame, axis, pairs)
            column.label(axes, label)
        column.panels[-1].set_xlabel(SETTINGS[axis])
    _legend_above(figure, columns, "means, 95 %")
    return figure


def _readings(table: pd.DataFrame, axis: str) -> Figure:
    """Ψ in its readings, after equal epochs."""
    figure, columns = _columns(table, 1, (5.6, 5.2), f"Readings of Ψ by {NAMES[axis]}")
    for column in columns:
        (axes,) = column.panels
        lines = _lines(axes, column.frame, axis, READINGS, log=True)
        for order, (name, (width, size)) in enumerate(NESTED.items()):
            lines[READINGS[name]].set(linewidth=width, markersize=size, zorder=2.1 + 0.1 * order)
        axes.set_xlabel(SETTINGS[axis])
        axes.set_yscale("log")
        column.label(axes, "Ψ after equal epochs (nats)")
    _legend_above(figure, columns, "geometric means, 95 %", ncols=len(columns))
    return figure


def _curvature(table: pd.DataFrame, axis: str, level: float) -> Figure:
    """What stands for the curvature: squared gradients beside the trace of the Hessian."""
    figure, columns = _columns(table, 2, (5.6, 5.8), f"Squared gradients and Hessian by {NAMES[axis]}")
    measures = {
        "mean_squared_gradient": "mean squared\nmini-batch gradient",
        "hessian_trace": "Tr H of the training loss",
    }
    for column in columns:
        for axes, (measure, label) in zip(column.panels, measures.items(), strict=True):
            pairs = {measure: "after equal epochs", f"matched_{measure}": _at(level)}
            _lines(axes, column.frame, axis, pairs, log=True)
            axes.set_yscale("log")
            column.label(axes, label)
        column.panels[-1].set_xlabel(SETTINGS[axis])
    _legend_above(figure, columns, "geometric means, 95 %")
    return figure


def _at(level: float) -> str:
    return f"at training loss {level:g} {'nat' if level == 1 else 'nats'}"


def _legend_above(figure: Figure, columns: Sequence[_Column], title: str, ncols: int = 2) -> None:
    figure.legend(*columns[0].panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=ncols, title=title)


def _lines(axes: Axes, table: pd.DataFrame, axis: str, columns: dict[str, str], log: bool = False) -> dict[Any, Line2D]:
    """One line a column against the setting, on a logarithmic axis with the settings as ticks."""
    parts = [
        table[[axis, "seed", column]].set_axis([axis, "seed", "value"], axis="columns").assign(column=label)
        for column, label in columns.items()
    ]
    values = pd.concat(parts).dropna(subset="value")
    lines = mean_band(axes, values, axis, "value", group="column", markers=True, log=log)
    log_axis(axes, "x", ticks=sorted(table[axis].unique()))
    return lines
