"""Degrees of the social networks against three spectral norms: a row a network, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, subplots

from .shared.labels import GRAPHS, NORMS


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a network: the degree over each norm, and the largest residual."""
    names = ["adjacency_norm", "walk_norm", "normalised_norm"]
    table = records.set_index("run")
    residual = table[[f"{name}_residual" for name in names]].max(axis=1)
    result = table[["degree", *names]].assign(residual=residual)
    for name in names:
        result[f"degree_over_{name}"] = table["degree"] / table[name]
    result["walk_over_root_degree"] = table["walk_norm"] / table["degree"] ** 0.5
    return result.assign(regime_reached=residual <= 10 * table["tolerance"])


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Degree and the three norms of each network as bars on a logarithmic axis."""
    names = list(dict.fromkeys(records["network"]))
    columns = {"degree": "largest degree $d$", **NORMS}
    figure, axes = subplots(size=(8.6, 4.2))
    for number, (column, label) in enumerate(columns.items()):
        values = records.set_index("network").loc[names, column]
        place = np.arange(len(names)) + 0.2 * (number - 1.5)
        axes.bar(place, values, width=0.18, color=PALETTE[(1, 0, 3, 2)[number]], label=label)
        for x, value in zip(place, values, strict=True):
            axes.text(
                x, value, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", ha="center", va="bottom", fontsize=8.5
            )
    axes.set_yscale("log")
    axes.set_ylim(0.7, 3 * records["degree"].max())
    sizes = records.set_index("network").loc[names, "nodes"]
    axes.set_xticks(range(len(names)), [f"{GRAPHS.get(n, n)}\n{size:,} nodes" for n, size in sizes.items()])
    axes.set_ylabel("value (log scale)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    expected = {"ego_facebook", "ca_grqc", "ca_hepth", "ca_condmat", "email_enron"}
    if not set(names) <= expected:
        note(
            figure,
            "D1: networks that a package client reaches; the slide shows five of SNAP's, unnamed",
            "substitution",
        )
    else:
        note(figure, "D1: the slide shows five of SNAP's networks and does not name them", "deviation")
    return {"graph_statistics": figure}
