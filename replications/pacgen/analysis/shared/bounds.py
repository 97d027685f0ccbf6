"""From the records of bounds to one row a run, and the figure of their terms."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, note, placeholder, subplots

TERMS = {
    "loss": "training loss",
    "sharpness": "sharpness",
    "divergence": "divergence",
    "rest": "log(1/δ)/η + η/(2n)",
}
NAMES = {"lemma6": "Lemma 6", "lemma8": "Lemma 8", "theorem7": "Theorem 7"}
VERSIONS = {
    "printed": "as printed",
    "fixed_prior": "prior fixed",
    "levels": "(21) corrected",
    "divergence": "(17) kept",
    "constant": "constant 1 + e",
    "corrected": "corrected*",
    "tightened": "tightened*",
}
PAPER_IMAGES = 60_000


def bound_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; over the two minima of a mixture values are averaged, margins the smaller.

    `<bound>_<version>` is the value, `…_divergence_share` the divergence's part of it, `…_margin` what it exceeds the
    loss of the perturbed weights on fresh data by; `theorem7_shortfall` is the printed complexity minus the least over
    η (the larger of two minima), `lemma8_correction` the corrected over the printed divergence of Lemma 8.
    """
    runs = pd.Index(records["run"].unique(), name="run")
    rows = records[records["kind"] == "bound"]
    if rows.empty:
        return pd.DataFrame({"regime_reached": False}, index=runs)
    rows = rows.assign(margin=rows["value"] - rows["population"], part=rows["divergence"] / rows["value"])
    table = pd.DataFrame(index=runs)
    for (bound, version), part in rows.groupby(["bound", "version"], sort=False):
        name, groups = f"{bound}_{version}", part.groupby("run")
        table[name] = groups["value"].mean()
        table[f"{name}_divergence_share"] = groups["part"].mean()
        table[f"{name}_margin"] = groups["margin"].min()
    table["theorem7_shortfall"] = rows.groupby("run")["shortfall"].max()
    divergence = rows.pivot_table(index="run", columns=["bound", "version"], values="divergence")
    table["lemma8_correction"] = divergence["lemma8", "divergence"] / divergence["lemma8", "levels"]
    table["regime_reached"] = rows.groupby("run")["prior_holds"].min().reindex(runs).fillna(0).astype(bool)
    return table


def bound_figure(records: pd.DataFrame, title: str) -> Figure:
    """Stacked terms of every version, means over runs; diamonds are the loss on fresh data that each one bounds.

    Corrected and tightened versions bound a loss in [0, 1], the others cross-entropy in nats.
    """
    rows = records[records["kind"] == "bound"]
    if rows.empty:
        return placeholder(title, "No mixture with a sharp and a flat minimum was found.")
    means = rows.groupby(["bound", "version"], sort=False)[[*TERMS, "population"]].mean()
    figure, axes = subplots(size=(6.4, 5.4))
    places = np.arange(len(means))[::-1]
    left = np.zeros(len(means))
    for (term, label), colour in zip(TERMS.items(), PALETTE, strict=False):
        axes.barh(places, means[term], left=left, color=colour, label=label, height=0.7)
        left += means[term].to_numpy()
    mark: dict[str, Any] = {"color": "#111111", "markeredgecolor": "#ffffff", "markeredgewidth": 1.0, "markersize": 7}
    axes.plot(means["population"], places, "D", label="perturbed loss, fresh data", **mark)
    axes.axvline(1, color="#8a8f98", linestyle="--", linewidth=1.4, label="1: nothing said of a loss in [0, 1]")
    axes.set_yticks(places, [f"{NAMES[bound]}, {VERSIONS[version]}" for bound, version in means.index])
    axes.set(title=title, xlim=(0, 1.02 * float(left.max())))
    figure.legend(loc="outside upper center", ncols=2)
    axes.set_xlabel("right-hand side (*: of the probability of error; else nats)")
    scale_note(figure, records)
    return figure


def scale_note(figure: Figure, records: pd.DataFrame) -> None:
    """Note under the figure on how many images the networks were trained."""
    if "training_images" in records and int(records["training_images"].iloc[0]) < PAPER_IMAGES:
        note(
            figure, f"{int(records['training_images'].iloc[0]):,} of {PAPER_IMAGES:,} training images (D11)", "reduced"
        )
    elif "training_images" not in records:
        note(figure, "mixtures and network of our choice (D1)", "deviation")
