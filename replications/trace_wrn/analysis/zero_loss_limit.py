"""Theorem 1: curvature as the loss goes to zero."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import colours, note, subplots


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
    """λ₁ and Tr H against the loss, on the ray and with rescaled layers."""
    figure, axes = subplots(size=(6.2, 4.6))
    shade = colours(["sharpness", "trace"])
    for seed, own in records.sort_values("scale").groupby("seed"):
        for name, label in (("sharpness", "λ₁"), ("trace", "Tr H")):
            label = label if seed == records["seed"].min() else ""
            axes.loglog(own["loss"], own[name], "-o", color=shade[name], label=f"{label}, ray" if label else "_ray")
            axes.loglog(
                own["rescaled_loss"],
                own[f"rescaled_{name}"],
                "--s",
                color=shade[name],
                mfc="none",
                mew=1,
                label=f"{label}, layers rescaled" if label else "_rescaled",
            )
    axes.invert_xaxis()
    axes.set(xlabel="training loss (nats)", ylabel="curvature", title="Theorem 1 · curvature as the loss goes to 0")
    axes.legend(loc="lower left")
    note(figure, "two-layer ReLU network without biases on 7 × 7 MNIST, one line a seed (D9)", "deviation")
    return {"theorem1": figure}
