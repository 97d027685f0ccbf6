"""From the records of the reparametrisation to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, placeholder, subplots

from .shared.bounds import scale_note

MEASURES = ("psi", "psi_no_rho", "psi_bare", "bound", "bound_fixed_prior", "trace", "sharpness")


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `…_ratio` is a measure over its value at α = 1 and the same seed, `…_change` the absolute relative change,
    `log10_…` the logarithm of the ratio. `…_speed` is the change of the bound, per weight and per unit of log α, times
    η: nats that one weight's term gains while α grows by a factor e (0 at α = 1). `psi_change_over_training` is the
    change of Ψ over the distance of Ψ between trained and initial weights.
    """
    table = records.set_index("run").copy()
    one = records[records["alpha"] == 1].set_index("seed")
    base = {name: table["seed"].map(one[name]) for name in (*MEASURES, "psi_untrained")}
    for name in MEASURES:
        ratio = table[name] / base[name]
        table[f"{name}_ratio"], table[f"{name}_change"] = ratio, (ratio - 1).abs()
        table[f"log10_{name}"] = np.log10(ratio)
    table["log10_psi_minus_sharpness"] = table["log10_psi"] - table["log10_sharpness"]
    span = np.log(table["alpha"]).abs()
    per_weight = table["eta"] / table["parameters"] / span.where(span > 0)
    for name in ("bound", "bound_fixed_prior"):
        table[f"{name}_speed"] = ((table[name] - base[name]).abs() * per_weight).fillna(0.0)
    trained = (base["psi"] - base["psi_untrained"]).abs()
    table["psi_change_over_training"] = (table["psi"] - base["psi"]).abs() / trained
    table["bare_distance_to_untrained"] = (table["psi_bare"] / table["psi_bare_untrained"] - 1).abs()
    table["function_change"] = (table["training_loss"] - table["seed"].map(one["training_loss"])).abs()
    table["regime_reached"] = table["prior_holds"].astype(bool) & (table["sharpness_error"] < 0.01)
    keep = [name for name in table if name not in ("alpha", "seed") and pd.api.types.is_numeric_dtype(table[name])]
    return table[keep]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Ratios to α = 1 on one logarithmic axis, and Ψ in its readings."""
    table = metrics(records).join(records.set_index("run")[["alpha", "seed"]])
    drawn = {"reparametrisation": _ratios(table), "reparametrisation_psi": _readings(table)}
    for figure in drawn.values():
        scale_note(figure, records)
    return drawn


def _ratios(table: pd.DataFrame) -> Figure:
    title = "One function, (α w¹, w²/α)"
    if not (table["alpha"] == 1).any():
        return placeholder(title, "No run at α = 1, to which all are compared.")
    figure, axes = subplots(size=(5.6, 4.8))
    columns = {
        "sharpness_ratio": "λ₁",
        "trace_ratio": "Tr H",
        "psi_ratio": "Ψ (γ = ε = 0.1)",
        "bound_ratio": "bound (13), τ from the weights",
        "bound_fixed_prior_ratio": "bound (13), τ fixed",
    }
    mean_bands(axes, table, "alpha", columns, log=True, markers=True)
    _alpha_axis(axes, table)
    axes.set_yscale("log")
    axes.set(ylabel="value / value at α = 1", title=title)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def _readings(table: pd.DataFrame) -> Figure:
    figure, axes = subplots(size=(5.6, 4.6))
    per_weight = table.assign(**{name: table[name] / table["parameters"] for name in READINGS})
    lines = mean_bands(axes, per_weight, "alpha", READINGS, markers=True)
    for name in ("psi_floor", "psi_bare_untrained"):  # they coincide with psi_no_rho and psi_bare
        lines[READINGS[name]].set(linewidth=4.5, linestyle=(0, (1, 2)), marker="", zorder=1.5)
    _alpha_axis(axes, table)
    axes.set(ylabel="Ψ per weight (nats)", title="Ψ over α")
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside upper center", ncols=2)
    return figure


READINGS = {
    "psi": "ε = 0.1, ρ from norms",
    "psi_no_rho": "ε = 0.1, ρ = 0",
    "psi_floor": "ε = 0.1, floor (no curvature)",
    "psi_bare": "ε = 0, ρ = 0",
    "psi_bare_untrained": "ε = 0, ρ = 0, untrained",
}


def _alpha_axis(axes: Axes, table: pd.DataFrame) -> None:
    ticks = sorted(table["alpha"].unique())
    log_axis(axes, "x", ticks=ticks)
    axes.set_xticklabels([f"{value:g}" if value >= 1 else f"1/{1 / value:g}" for value in ticks])
    axes.set_xlabel("α")
