"""Figures of `noise_stability`."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, mean_band, note, reference_line, subplots

from .source_labels import substitutions, system_names

KINDS = {"smooth": "smooth", "relu": "ReLU"}


def stability_figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Fig. 1, and the relative gap between its two curves."""
    return {"fig1": _both_sides(records), "fig1_gap": _gaps(records)}


def _panels(records: pd.DataFrame) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    systems = system_names(records)
    figure, grid = subplots(1, len(systems), size=(3.6 * len(systems) + 2.2, 4.0), sharey=False)
    panels = list(zip([grid] if len(systems) == 1 else list(grid), systems, strict=True))
    for axes, name in panels:
        axes.set(title=systems[name], xlabel="standard deviation $\\sigma$ of the noise")
        log_axis(axes, "x", _every_other(records[records["system"] == name]))
    return figure, [(axes, records[records["system"] == name]) for axes, name in panels]


def _every_other(part: pd.DataFrame) -> list[float]:
    """Every other σ of a system, to be named on its axis."""
    return sorted(part.groupby("factor")["sigma"].first())[::2]


def _both_sides(records: pd.DataFrame) -> Figure:
    figure, panels = _panels(records)
    handles = {}
    for axes, part in panels:
        for number, (kind, label) in enumerate(KINDS.items()):
            mine = part[part["kind"] == kind]
            if mine.empty:
                continue
            series = {
                "paired_change": f"rise of the loss, {label}",
                "curvature": f"$\\frac{{1}}{{2}}\\sigma^2$ Tr $H$, {label}",
            }
            if mine["kinks"].abs().max() > 0:
                mine = mine.assign(with_kinks=mine["curvature"] + mine["kinks"])
                series["with_kinks"] = "with kinks, ReLU"
            for style, (column, name) in zip(("o", "-", ":"), series.items(), strict=False):
                means = mine.groupby("factor")[["sigma", column]].mean().sort_values("sigma")
                (line,) = axes.plot(
                    means["sigma"], means[column], style, color=PALETTE[number], label=name, markersize=6
                )
                handles[name] = line
        log_axis(axes, "y")
    panels[0][0].set_ylabel("nats, mean over seeds")
    figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    _say_source(figure, "Figure 1 · the rise of the loss under noise in the weights, and its prediction", records)
    return figure


def _gaps(records: pd.DataFrame) -> Figure:
    figure, panels = _panels(records)
    for axes, part in panels:
        long = pd.concat(
            [
                part.assign(gap=100 * (part["curvature"] / part["paired_change"] - 1), series=part["kind"]).sort_values(
                    "kind", key=lambda kinds: kinds.map(list(KINDS).index), kind="stable"
                ),
                part[part["kind"] == "relu"].assign(
                    gap=100 * ((part["curvature"] + part["kinks"]) / part["paired_change"] - 1), series="kinks"
                ),
            ]
        )
        long["sigma"] = long.groupby("factor")["sigma"].transform("mean")
        mean_band(
            axes, long, "sigma", "gap", group="series", labels=KINDS | {"kinks": "ReLU, with kinks"}, markers=True
        )
        axes.axhspan(-10, 10, color="0.92", zorder=0, label="within 10 %")
        reference_line(axes, y=0, label="equal")
    panels[0][0].set_ylabel("$\\frac{1}{2}\\sigma^2$ Tr $H$ against the rise, %")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside right upper")
    _say_source(figure, "Figure 1 · the prediction against the rise of the loss, 95 % intervals over seeds", records)
    return figure


def _say_source(figure: Figure, title: str, records: pd.DataFrame) -> None:
    figure.suptitle(title, x=0.01, ha="left")
    if text := substitutions(records):
        note(figure, text, "substitution")
