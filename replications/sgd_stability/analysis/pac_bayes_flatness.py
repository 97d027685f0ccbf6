"""From the records of the flatness bound to one row a run, and its figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots

REFERENCE_SIGMA = 0.01
"""σ at which the noise is compared with the ball."""
VERSIONS = {
    "printed": ("printed_ball_rise", "complexity_printed"),
    "free": ("printed_ball_rise", "complexity_free"),
    "corrected": ("ball_rise", "complexity_corrected"),
    "initial": ("ball_rise", "complexity_initial"),
    "direct": ("noise_rise", "complexity_initial"),
}
"""Rise and complexity that each version adds; those with a maximum over ρ also 1/√n."""
FITTED = 0.02
GUESSING = 0.9
"""1 − p_y of equal probabilities of ten classes."""
WORKING = 0.1
"""Rise of the training loss up to which a network under noise counts as one that still works."""


def right_hand_sides(records: pd.DataFrame) -> pd.DataFrame:
    """The records with a column a version: what it allows L(θ) − L̂(θ) to be."""
    rows = records.copy()
    rows["gap"] = rows["test_loss"] - rows["loss"]
    for version, (rise, complexity) in VERSIONS.items():
        rows[version] = rows[rise].clip(lower=0) + rows[complexity]
        if version in ("corrected", "initial"):
            rows[version] += rows["tail"]
    return rows


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `…_best`: a version's right-hand side at its best σ; `…_margin` what it exceeds the gap by; `tightest` the least of
    the valid versions. `free_margin_as_assumed` is `free_margin` over those σ alone where the theorem's assumption
    holds, that noise does not lower the test loss; missing where it holds at none. `free_fails_as_assumed`: whether
    `free` lies below the gap at some such σ, 1 or 0. `log10_noise_over_ball`: noise of standard deviation σ against the
    worst step of length σ.

    `working_…` reads those σ alone at which noise raises the training loss by at most `WORKING`: `…tightest`;
    `…complexity_share`, the part of the complexity in the version with the maximum and the prior at the initial
    weights, at its best; `…union_price`, what the grids add to that complexity, relative; `…assumption_margin`, the
    least E L(θ + ε) − L(θ) on test images.
    """
    rows = right_hand_sides(records)
    groups = rows.groupby("run", sort=False)
    table = pd.DataFrame(index=pd.Index(records["run"].unique(), name="run"))
    table["gap"], table["loss"] = groups["gap"].first(), groups["loss"].first()
    for version in VERSIONS:
        table[f"{version}_best"] = groups[version].min()
        table[f"{version}_margin"] = table[f"{version}_best"] - table["gap"]
    assumed = rows[rows["test_noise_rise"] >= 0].groupby("run", sort=False)["free"].min()
    table["free_margin_as_assumed"] = assumed - table["gap"]
    table["free_fails_as_assumed"] = (table["free_margin_as_assumed"] < 0).astype(float)
    table["tightest"] = table[["corrected_best", "initial_best", "direct_best"]].min(axis=1)
    working = rows[rows["noise_rise"] <= WORKING]
    table["working_tightest"] = working.groupby("run")[["corrected", "initial", "direct"]].min().min(axis=1)
    best = working.sort_values("initial").groupby("run").first()
    table["working_complexity_share"] = best["complexity_initial"] / best["initial"]
    table["working_union_price"] = best["complexity_initial"] / best["complexity_optimistic"] - 1
    table["working_assumption_margin"] = working.groupby("run")["test_noise_rise"].min()
    middle = rows[rows["sigma"] == REFERENCE_SIGMA].set_index("run")
    ratio = middle["noise_rise"].clip(lower=1e-12) / middle["printed_ball_rise"].clip(lower=1e-12)
    table["log10_noise_over_ball"] = np.log10(ratio)
    table["regime_reached"] = table["loss"] <= FITTED
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Right-hand sides over σ with the measured gap: small batches, large batches, random labels."""
    rows = right_hand_sides(records)
    names = {
        "printed": "as printed, ρ = σ",
        "free": "as printed, ρ → ∞",
        "corrected": "corrected",
        "initial": "prior at initial weights",
        "direct": "noise, no maximum",
        "gap": "measured gap",
    }
    titles = {"small": "Small batches", "large": "Large batches", "shuffled": "Random labels"}
    titles = {arm: title for arm, title in titles.items() if (rows["arm"] == arm).any()}
    figure, axes = subplots(1, len(titles), size=(1.2 + 3 * len(titles), 4.8), sharey=True)
    for axis, (arm, title) in zip(axes, titles.items(), strict=True):
        part = rows[rows["arm"] == arm]
        part = part.assign(**{name: part[name].clip(lower=1e-4) for name in names})
        lines = mean_bands(axis, part, "sigma", names, log=True, markers=True)
        lines["measured gap"].set(linewidth=3, linestyle=(0, (4, 2)), marker="")
        reference_line(axis, y=GUESSING, label="0.9: guessing")
        axis.set_yscale("log")
        log_axis(axis, "x", ticks=sorted(part["sigma"].unique())[::2])
        axis.set(title=title, xlabel="σ of the noise on each weight")
    axes[0].set_ylabel("bound on L(θ) − L̂(θ)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    images = int(records["training_images"].max())
    note(
        figure,
        f"networks of large_batch, at most {images:,} training images; the maximum is found by ascent (D48)",
        "reduced",
    )
    return {"flatness_bound": figure}
