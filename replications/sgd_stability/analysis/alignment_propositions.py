"""The alignment of random models in each proposition: a row a run, and μ against size."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: the least μ, alone and times d.

    Random features are in their regime where n ≥ d⁵, the premise of Proposition 2 with its factor taken as 1.
    """
    rows = records.set_index("run")
    table = rows.select_dtypes("number").drop(columns=["dimension", "seed"])
    table["mu_times_dimension"] = rows["dimension"] * table["mu_smallest"]
    table["log_mu"] = np.log(table["mu_smallest"].clip(lower=1e-12))
    premise = rows["examples"] >= rows["dimension"] ** 5
    return table.assign(regime_reached=premise | (rows["model"] == "linear"))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The least μ over θ against the dimension, linear networks and random features, with the propositions' bounds."""
    figure, (left, right) = subplots(1, 2, size=(8.8, 4.3))
    linear = records[records["model"] == "linear"]
    columns = {
        "mu_smallest": "least μ, sample for n = ∞",
        "mu_formula_smallest": "least μ, Gaussian formula",
        "mu_few_smallest": f"least μ, n = {int(records['few_per_dimension'].iloc[0])}d",
    }
    lines = mean_bands(left, linear, "dimension", columns, markers=True)
    lines["least μ, Gaussian formula"].set_linestyle("--")
    reference_line(left, y=1.0, label="Proposition 1: ≥ 1")
    left.set(title="linear networks", ylabel="μ over errors e = vᵀx")
    features = records[records["model"] == "random_features"]
    columns = {"mu_smallest": "least μ over all θ", "mu_typical": "μ of a random θ"}
    mean_bands(right, features, "dimension", columns, log=True, markers=True)
    at = np.array(sorted(features["dimension"].unique()), dtype=float)
    right.plot(at, 1 / at, ":", color="#8a8f98", label="1/d, the rate of Proposition 2")
    right.set(title="ReLU random features")
    right.set_yscale("log")
    for axes in (left, right):
        log_axis(axes, "x", ticks=sorted(records["dimension"].unique()))
        axes.set_xlabel("dimension d")
        axes.legend(fontsize=8.5)
    count = int(records["examples"].iloc[0])
    within = max((int(d) for d in at if count >= d**5), default=0)
    text = f"models of our choice, samples of {count:,} for n = ∞; n ≥ d⁵ holds up to d = {within} (D29)"
    note(figure, text, "deviation")
    return {"propositions": figure}
