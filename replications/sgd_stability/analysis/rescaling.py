"""From rescaled and perturbed minima to one row a run, and figures."""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, mean_band, mean_bands, note, subplots

IDENTITIES = {"largest": "λ₁", "trace": "Tr H", "squared_norm": r"$\|H\|^2_F$"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `log_growth` is log λ₁ at the largest factor of rescaling less that at 1, `function_change` the largest relative
    change of an output. `<quantity>_order` is the slope of log error on log ρ between the second and the largest ρ; the
    error is measured from the value at the smallest ρ and the same draws (λ₁: from the Hessian's).
    `<quantity>_recovered` is the value at the smallest ρ over that of the Hessian.
    """
    runs = pd.Index(records["run"].unique(), name="run")
    table = pd.DataFrame(index=runs)
    at = records[records["part"] == "rescaling"]
    if len(at):
        largest = at.pivot_table(index="run", columns="factor", values="largest")
        trace = at.pivot_table(index="run", columns="factor", values="trace")
        table["log_growth"] = np.log(largest[largest.columns.max()] / largest[1.0])
        table["log_fall"] = _log_fall(trace)
        table["function_change"] = at.groupby("run")["function_change"].max()
        exact = 2 * (at["factor"] ** 2 + at["factor"] ** -2)  # of (aw − 1)², twice that of the lecture's ½(aw − 1)²
        toy = at["model"] == "product"
        error = (at["largest"] / exact - 1).abs().where(toy)
        table["toy_error"] = error.groupby(at["run"]).max()
    found = records[records["part"] == "identity"]
    for name in IDENTITIES:
        table[f"{name}_order"], table[f"{name}_recovered"] = _order(found, name), _recovered(found, name)
    reached = records.assign(reached=records["loss"] < records["loss_limit"]).groupby("run")["reached"].min()
    table["regime_reached"] = reached
    return table


def _log_fall(trace: pd.DataFrame) -> pd.Series:
    """With Tr H = A c² + B/c², known at the ends of the factors: log 2√(AB)/Tr H(1)."""
    low, high = float(trace.columns.min()), float(trace.columns.max())
    first, last = trace[trace.columns.min()], trace[trace.columns.max()]
    determinant = low**2 / high**2 - high**2 / low**2
    upper = (first / high**2 - last / low**2) / determinant
    lower = (low**2 * last - high**2 * first) / determinant
    return pd.Series(np.log(2 * np.sqrt(upper * lower) / trace[1.0]), index=trace.index)


def _errors(found: pd.DataFrame, name: str) -> pd.DataFrame:
    """Size of the relative error, rows runs, columns ρ without the smallest."""
    values = found.pivot_table(index="run", columns="radius", values=f"found_{name}")
    truth = found.groupby("run")[name].first()
    start = truth if name == "largest" else values[values.columns.min()]
    return values.drop(columns=values.columns.min()).sub(start, axis=0).abs().div(truth, axis=0)


def _order(found: pd.DataFrame, name: str) -> pd.Series:
    errors = _errors(found, name)
    low, high = errors.columns.min(), errors.columns.max()
    with np.errstate(divide="ignore"):
        order = np.log(errors[high] / errors[low]) / math.log(float(high) / float(low))
    return pd.Series(order, index=errors.index)


def _recovered(found: pd.DataFrame, name: str) -> pd.Series:
    smallest = found[found["radius"] == found["radius"].min()].set_index("run")
    return pd.Series(smallest[f"found_{name}"] / smallest[name], index=smallest.index)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Curvature over the factor of rescaling; error of the identities over ρ."""
    drawn = {"rescaling": _rescaling(records), "identities": _identities(records)}
    for figure in drawn.values():
        note(figure, "networks and data of our choice (D24)", "deviation")
    return drawn


def _rescaling(records: pd.DataFrame) -> Figure:
    at = records[records["part"] == "rescaling"]
    figure, panels = subplots(1, 2, size=(8.4, 4.2))
    for axes, (model, title) in zip(
        panels, {"product": "(aw − 1)² at a = 1/w", "relu": "two-layer ReLU network"}.items(), strict=True
    ):
        part = at[at["model"] == model]
        part = part.assign(norm=part["squared_norm"] ** 0.5)
        columns = {"largest": "λ₁", "trace": "Tr H", "norm": r"$\|H\|_F$"}
        lines = mean_bands(axes, part, "factor", columns, log=True, markers=True)
        lines[r"$\|H\|_F$"].set(linestyle="--")
        log_axis(axes, "x")
        axes.set_yscale("log")
        axes.set(xlabel="c of (a/c, c w)", title=title)
    panels[0].set_ylabel("curvature of one function")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _identities(records: pd.DataFrame) -> Figure:
    found = records[records["part"] == "identity"]
    seeds = found.groupby("run")["seed"].first()
    figure, panels = subplots(1, 3, size=(8.4, 4.2), sharey=True)
    titles = {"product": "(aw − 1)²", "tanh": "tanh network", "relu": "ReLU network"}
    for axes, (model, title) in zip(panels, titles.items(), strict=True):
        rows = []
        for name, label in IDENTITIES.items():
            errors = _errors(found[found["model"] == model], name)
            long = errors.reset_index().melt(id_vars="run", var_name="radius", value_name="error")
            rows.append(long.assign(of=label, seed=long["run"].map(seeds)))
        shown = pd.concat(rows)
        mean_band(axes, shown[shown["error"] > 0], "radius", "error", group="of", log=True, markers=True)
        radii = np.array(sorted(shown["radius"].unique()))
        axes.plot(radii, radii, ":", color=PALETTE[5], label="∝ ρ")
        axes.plot(radii, radii**2, "--", color=PALETTE[5], label="∝ ρ²")
        log_axis(axes, "x")
        axes.set(xlabel="perturbation ρ", title=title)
    panels[0].set_yscale("log")
    panels[0].set_ylabel("relative error of the identity")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure
