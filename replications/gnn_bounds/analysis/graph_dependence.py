"""From the records of graphs to one row a run, and by which factor bounds grow with the graph."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from common.figures import MARKERS, PALETTE, log_axis, note, reference_line, subplots

from .shared.labels import GRAPHS, NORMS

CURVES = {
    "degree_power": ("$d^{l-1}$: Garg GCN, MPNN; Liao MPNN", PALETTE[1], "-"),
    "half_degree_power": ("$d^{(l-1)/2}$: Liao GCN", PALETTE[4], "-"),
    "message_degree_power": ("$d^{(l+1)(l-2)/l}$: Liao MPNN, Thm. 3.4", PALETTE[4], ":"),
    "mpnn": ("$\\|A\\|_2^{l-1}$: MPNN, eq. (12)", PALETTE[0], "-"),
    "gin": ("mean of $\\|A\\|_2^i$: GIN", PALETTE[0], "--"),
    "graphsage": ("$\\|D^{-1}A\\|_2^{l-1}$: GraphSAGE", PALETTE[3], "-"),
    "gcn": ("1: GCN", PALETTE[2], "-"),
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: norms, their ratios to the degree, and the gain at six layers (log₁₀)."""
    table = records[records["row"] == "graph"].set_index("run")[["degree", *NORMS, "smallest_ratio", "median_ratio"]]
    table["degree_over_adjacency_norm"] = table["degree"] / table["adjacency_norm"]
    root = table["degree"] ** 0.5
    table["adjacency_norm_over_root_degree"] = table["adjacency_norm"] / root
    table["walk_over_root_degree"] = table["walk_norm"] / root
    depths = records[records["row"] == "depth"].set_index("run")
    gain = np.log10(depths["degree_power"] / depths["mpnn"])
    by_depth = {depth: gain[depths["depth"] == depth] for depth in depths["depth"].unique()}
    table["log10_gain_at_six_layers"] = by_depth.get(6)
    return table.assign(regime_reached=True)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The factors of Table 1 over depth, one panel a graph; and how far each norm lies below the degree."""
    return {"table1": _curves(records[records["row"] == "depth"]), "table1_norms": _ratios(records)}


def _curves(depths: pd.DataFrame) -> Figure:
    names = list(dict.fromkeys(depths["graph"]))
    columns = 4
    rows = -(-len(names) // columns)
    figure, panels = subplots(rows, columns, size=(10.2, 2.4 * rows + 0.9), sharex=True, squeeze=False)
    for axes, name in zip(panels.flat, names, strict=False):
        part = depths[depths["graph"] == name].groupby("depth")[list(CURVES)].mean()
        for column, (label, colour, line) in CURVES.items():
            width = 4.0 if column == "degree_power" else 1.8  # seen below the MPNN's where both are equal
            axes.plot(part.index, part[column], color=colour, linestyle=line, linewidth=width, label=label)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=4))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set(title=GRAPHS.get(name, name))
        axes.set_xticks(sorted(depths["depth"].unique())[::2])
    for axes in panels.flat[len(names) :]:
        axes.set_axis_off()
    for axes in panels.flat[max(0, len(names) - columns) : len(names)]:
        axes.set_xlabel("layers $l$")
        axes.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("factor in the bound")
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, "Table 1 prints formulas; graphs are ours. Means over seeds; hidden constants are one", "illustration")
    return figure


def _ratios(records: pd.DataFrame) -> Figure:
    graphs = records[records["row"] == "graph"]
    names = list(dict.fromkeys(graphs["graph"]))
    figure, axes = subplots(size=(8.4, 4.0))
    for number, (column, label) in enumerate(NORMS.items()):
        for place, name in enumerate(names):
            part = graphs[graphs["graph"] == name]
            axes.plot(
                np.full(len(part), place + 0.22 * (number - 1)),
                part["degree"] / part[column],
                MARKERS[number],
                color=PALETTE[(0, 3, 2)[number]],
                markersize=7,
                label=label if place == 0 else f"_{label}",
            )
    reference_line(axes, y=1, label="equality")
    log_axis(axes, "y")
    axes.set_xticks(range(len(names)), [GRAPHS.get(name, name) for name in names], rotation=25, ha="right")
    axes.set_ylabel("largest degree / norm")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    note(figure, "one marker a seed; for collections the largest of all graphs on both sides", "illustration")
    return figure
