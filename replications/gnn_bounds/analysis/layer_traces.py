"""Measured trace of each layer against its bound, and the distance from the initial weights."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, abreast, note, reference_line, subplots

from .shared.labels import MODELS

NETWORKS = {**MODELS, "sage": "GraphSAGE", "gin": "GIN"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns:
        smallest_slack, mean_slack: log10 of the bound over the measured trace, in the worst block and on average; a
            trace counts as at least its standard error.
        log10_ours: bound (12) with the network's entry of Table 1.
        log10_distance: of ‖W − W⁽⁰⁾‖; log10_norm_over_distance: of ‖W‖ over it.
        training_loss, test_loss.
        regime_reached: the training loss is below 95 % of that of guessing; with shuffled labels always.
    """
    networks = records[records["row"] == "network"].set_index("run")
    blocks = with_slack(records).groupby("run")["slack"]
    table = networks[["log10_ours", "training_loss", "test_loss"]].copy()
    table["smallest_slack"], table["mean_slack"] = blocks.min(), blocks.mean()
    table["log10_distance"] = np.log10(networks["distance"])
    table["log10_norm_over_distance"] = np.log10(networks["weight_norm"] / networks["distance"])
    learnt = networks["training_loss"] < 0.95 * networks["guessing_loss"]
    return table.assign(regime_reached=learnt | (networks["labels"] == "shuffled"))


def with_slack(records: pd.DataFrame) -> pd.DataFrame:
    """The rows of blocks with `slack`, log10 of the bound over the trace."""
    blocks = records[records["row"] == "block"]
    measured = np.maximum(blocks["trace"], blocks["trace_spread"])
    return blocks.assign(measured=measured, slack=np.log10(blocks["trace_bound"] / measured))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The bound over the measured trace of every block, by network and depth; true labels."""
    blocks = with_slack(records)
    blocks = blocks[blocks["labels"] == "true"]
    figure, axes = subplots(size=(7.2, 4.4))
    depths = sorted(blocks["depth"].unique())
    for number, depth in enumerate(depths):
        for place, model in enumerate(NETWORKS):
            slack = blocks.loc[(blocks["model"] == model) & (blocks["depth"] == depth), "slack"]
            at = place + 0.4 * (number - (len(depths) - 1) / 2) + abreast(len(slack), 0.26)
            label = f"{depth} layers" if place == 0 else "_blocks"
            look = {"marker": MARKERS[number], "color": PALETTE[number], "linestyle": "none"}
            axes.plot(at, 10.0**slack, markersize=4, alpha=0.7, label=label, **look)
    axes.set_yscale("log")
    reference_line(axes, y=1.0, label="the bound would be broken below")
    axes.set_xticks(range(len(NETWORKS)), list(NETWORKS.values()))
    axes.set(ylabel="bound on Tr H over Tr H measured", xlim=(-0.6, len(NETWORKS) - 0.4))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=len(depths) + 1)
    note(figure, "a point a block; D9: hidden constants are one, layers that share weights are one block", "deviation")
    return {"layer_traces": figure}
