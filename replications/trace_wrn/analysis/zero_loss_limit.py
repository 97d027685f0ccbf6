"""Theorem 1: curvature as the loss goes to zero."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, mark_seed, note, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: decades that loss and λ₁ fall from the first to the last point, in both arms."""
    ordered = records.sort_values(["run", "scale"])
    first, last = ordered.groupby("run").first(), ordered.groupby("run").last()
    table = first[[]].copy()
    for name in ("loss", "sharpness", "trace"):
        table[f"{name}_decades"] = np.log10(last[name] / first[name])
        table[f"rescaled_{name}_decades"] = np.log10(last[f"rescaled_{name}"] / first[name])
    table["function_change"] = (ordered["rescaled_loss"] / ordered["loss"] - 1).abs().groupby(ordered["run"]).max()
    table["regime_reached"] = first["separated"].astype(bool) & (table["loss_decades"] < -6)
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """λ₁ and Tr H against the loss, every seed, on the ray and with rescaled layers."""
    figure, panels = subplots(1, 2, size=(8.2, 4.2), sharex=True, sharey=True)
    arms = {"": "all weights grow in proportion (a ray)", "rescaled_": "then its layers are rescaled"}
    for axes, (name, title) in zip(panels, {"sharpness": "λ₁", "trace": "Tr H"}.items(), strict=True):
        for (arm, label), shade, style in zip(arms.items(), PALETTE, ("-", "--"), strict=False):
            for number, (_, own) in enumerate(records.sort_values("scale").groupby("seed")):
                line = axes.loglog(
                    own[f"{arm}loss"],
                    own[f"{arm}{name}"],
                    style,
                    color=shade,
                    linewidth=0.9,
                    alpha=0.8,
                    label=label if number == 0 else "_",
                )
                mark_seed(line, own["seed"].iloc[0])
        axes.set(title=title, xlabel="training loss (nats), falling to the right")
    panels[0].invert_xaxis()
    panels[0].set_ylabel("curvature (nats)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    note(figure, "two-layer ReLU network without biases on 7 × 7 MNIST, one line a seed (D9)", "deviation")
    return {"theorem1": figure}
