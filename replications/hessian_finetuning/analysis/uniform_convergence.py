"""Claim 2: the gap between traces against n: a row a run, and the figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_band, note, subplots

from .shared.source_names import system_names

ARMS = {
    "others": "trained on others\n(root mean square)",
    "own": "trained on these n",
    "ball": "worst found\nin the ball",
}
"""At which weights."""
FITTED = 0.05
"""Training error up to which weights count as fitted to their examples."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: log n, log of the difference, and the difference relative to the fresh trace."""
    table = records.drop_duplicates("run", keep="last").set_index("run")
    found = table.drop(columns=["seed", "examples", "arm"], errors="ignore").copy()
    found["log_examples"] = np.log(table["examples"].astype(float))
    found["log_difference"] = np.log(table["difference"].clip(lower=1e-12))
    found["relative_difference"] = table["difference"] / table["fresh_trace"]
    found["regime_reached"] = table["training_error"] <= FITTED
    return found


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """|Tr H on n examples − Tr H on fresh data| over n, with a line of slope −½."""
    figure, axes = subplots(size=(8.6, 4.2))
    mean_band(axes, records, "examples", "difference", group="arm", labels=ARMS, log=True, markers=True)
    fixed = records[records["arm"] == "others"].groupby("examples")["difference"].mean()
    if len(fixed) > 1:
        counts = fixed.index.to_numpy(dtype=float)
        axes.plot(counts, 0.6 * fixed.iloc[0] * np.sqrt(counts[0] / counts), "--", color="0.4", label="slope −½")
    log_axis(axes, "x", sorted(records["examples"].unique()))
    log_axis(axes, "y")
    axes.set(xlabel="examples $n$", ylabel="difference of Tr $H$, nats")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    figure.suptitle("Claim 2 · the trace on training and on fresh examples", x=0.01, ha="left")
    (name,) = system_names(records).values()
    note(figure, f"two layers of ReLUs: {name}; the talk shows no figure of Claim 2 (D6)", "illustration")
    return {"claim2": figure}
