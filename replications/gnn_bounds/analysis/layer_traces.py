"""Measured trace of each layer against its bound, and the distance from the initial weights."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, note, subplots

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
    """Measured trace over its bound, a panel a network, a colour a depth; true labels."""
    blocks = with_slack(records)
    blocks = blocks[blocks["labels"] == "true"]
    figure, panels = subplots(1, len(NETWORKS), size=(10.0, 3.9), sharex=True, sharey=True)
    depths = sorted(blocks["depth"].unique())
    ends = np.array([blocks[["measured", "trace_bound"]].min().min(), blocks["trace_bound"].max()])
    for axes, (model, name) in zip(panels, NETWORKS.items(), strict=True):
        for place, depth in enumerate(depths):
            part = blocks[(blocks["model"] == model) & (blocks["depth"] == depth)]
            look = {"marker": MARKERS[place], "color": PALETTE[place], "linestyle": "none"}
            axes.plot(part["trace_bound"], part["measured"], markersize=4, label=f"{depth} layers", **look)
        axes.plot(ends, ends, linestyle="--", color=PALETTE[5], marker="", label="equal")
        axes.set(xscale="log", yscale="log", title=name, xlabel="bound on Tr H of a block")
    panels[0].set_ylabel("Tr H measured")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(depths) + 1)
    note(figure, "D9: hidden constants are one; layers that share weights are one block", "deviation")
    return {"layer_traces": figure}
