"""From the records of the alignment factors to one row a run, and figures."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots

FACTORS = {"alpha": "α", "beta": "β", "mu": "μ", "gamma": "γ"}
TITLES = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
EQUAL_LOSS = 0.01
"""A loss that networks of every width come by, at which they are compared."""
NAMES = {"mnist": "MNIST, even or odd", "cifar10": "CIFAR-10, two classes"}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    `mu`, `alpha`, `beta`, `gamma` are of the last measurement, `mu_smallest` is the least μ on the way,
    `log_mu_at_equal_loss` log μ where the loss last falls below `EQUAL_LOSS`, interpolated in its logarithm;
    `log_mu_along` and `log_loss_along` are curves, the logarithms of both at every measurement.
    `log_unevenness` is the mean over measurements of log (relative deviation of e_i² / that of ‖g_i‖²_G), and
    `log_unevenness_last` that of the last one; `uneven_…` are the last values of both, and of ‖g_i‖_G.
    """
    ordered = records.sort_values("step")
    groups = ordered.groupby("run")
    last = groups.last()
    table = last[list(FACTORS)].copy()
    table["log_mu"] = np.log(table["mu"].clip(lower=1e-12))
    table["mu_smallest"] = groups["mu"].min()
    table["log_mu_at_equal_loss"] = pd.Series({run: _at_equal_loss(part) for run, part in groups})
    for name in ("mu", "loss"):
        logarithm = np.log(ordered[name].clip(lower=1e-12))
        table[f"log_{name}_along"] = logarithm.groupby(ordered["run"]).agg(list)
    table["mu_minus_gamma"] = table["mu"] - table["gamma"]
    ratio = pd.Series(np.log(ordered["uneven_errors"] / ordered["uneven_gradients"]), index=ordered.index)
    table["log_unevenness"] = ratio.groupby(ordered["run"]).mean()
    table["log_unevenness_last"] = ratio.groupby(ordered["run"]).last()
    for name in ("uneven_errors", "uneven_gradients", "uneven_gradient_norms"):
        table[name] = last[name]
    table["loss"], table["parameters"] = last["loss"], last["parameters"].astype(float)
    table["regime_reached"] = last["loss"] < last["loss_reached"]
    return table


def _at_equal_loss(part: pd.DataFrame) -> float:
    """log μ of a run, ordered by step, at `EQUAL_LOSS`; missing where it does not come by."""
    loss, mu = np.log(part["loss"].to_numpy() / EQUAL_LOSS), np.log(part["mu"].clip(lower=1e-12).to_numpy())
    falls = np.flatnonzero((loss[:-1] >= 0) & (loss[1:] < 0))
    if not len(falls):
        return float("nan")
    place = falls[-1]
    return float(np.interp(0.0, loss[[place + 1, place]], mu[[place + 1, place]]))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """For each data set the factors along training and over the number of parameters; the unevenness of both."""
    drawn = {}
    for dataset, part in records.groupby("dataset"):
        name = "fig18" if dataset == "mnist" else f"fig18_{dataset}"
        drawn[name] = _factors(part, NAMES.get(str(dataset), str(dataset)))
        note(drawn[name], _reduction(part), "reduced")
    drawn["uniformity"] = _uniformity(records)
    note(drawn["uniformity"], _reduction(records), "reduced")
    return drawn


def _reduction(records: pd.DataFrame) -> str:
    widths = ", ".join(f"{value}" for value in sorted(records["width"].unique()))
    sizes = records.groupby("dataset")["examples"].first()
    images = ", ".join(f"{count} images of {TITLES.get(str(name), name)}" for name, count in sizes.items())
    return f"{images}, fully connected networks of width {widths} (D27)"


def _factors(part: pd.DataFrame, title: str) -> Figure:
    figure, (left, right) = subplots(1, 2, size=(8.8, 4.3), sharey=True)
    middle = sorted(part["width"].unique())[part["width"].nunique() // 2]
    chosen = part[part["width"] == middle]
    _draw(left, chosen.assign(step=chosen["step"].clip(lower=10)), "step")
    left.set(xlabel="SGD steps (0 drawn at 10)", ylabel="alignment factor", title=f"{title}, width {middle}")
    last = part[part["step"] == part["step"].max()]
    _draw(right, last, "parameters")
    right.set(xlabel="number of parameters", title=f"after {int(part['step'].max()):,} steps")
    left.set_ylim(bottom=0)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def _draw(axes: Axes, rows: pd.DataFrame, x: str) -> None:
    mean_bands(axes, rows, x, FACTORS, markers=True)
    reference_line(axes, y=1.0, label="Σ = 2L G")
    sizes = sorted(rows[x].unique())
    log_axis(axes, "x", ticks=sizes[:: (len(sizes) + 3) // 4] if x == "parameters" else None)  # four have room


def _uniformity(records: pd.DataFrame) -> Figure:
    present = [name for name in NAMES if name in set(records["dataset"])]
    figure, panels = subplots(1, len(present), size=(4.4 * len(present), 4.2), sharey=True, squeeze=False)
    for axes, dataset in zip(panels[0], present, strict=True):
        part = records[records["dataset"] == dataset]
        rows = part.assign(step=part["step"].clip(lower=10))
        columns = {
            "uneven_errors": "fitting errors e²",
            "uneven_gradients": r"$\|g\|^2_G$",
            "uneven_gradient_norms": r"$\|g\|_G$",
        }
        mean_bands(axes, rows, "step", columns, markers=True)
        log_axis(axes, "x")
        axes.set(xlabel="SGD steps (0 drawn at 10)", title=NAMES[dataset])
        axes.set_ylim(bottom=0)
    panels[0][0].set_ylabel("standard deviation / mean over examples")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure
