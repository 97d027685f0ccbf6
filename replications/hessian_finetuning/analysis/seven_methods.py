"""Fig. 2: a row a run, the Hessian measure against the gap over seven methods, and what else predicts it."""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import PALETTE, log_axis, subplots
from common.figures.style import INK

from .shared.dots import dots
from .shared.source_names import say_setting, system_names

MEASURES = {
    "measure": "Hessian measure",
    "test_measure": "… with test points",
    "mean_measure": "… mean for maximum",
    "curvature": "… without C",
    "test_curvature": "… without C, test points",
    "root_largest_loss": "√C alone",
    "norm_product": "norm product",
    "weight_norm": "weight norm",
    "distance": "distance from start",
}
"""The readings of the measure, its parts and the other measures, with the names that figures give them."""
WITHOUT = {
    f"{prefix}{kind}_without_method": (f"{prefix}measure", given)
    for prefix in ("", "test_")
    for kind, given in (("measure", None), ("partial", "log_training_loss"))
}
"""Correlations with a method left out: the measure, and what is given."""
PREDICTORS = {**MEASURES, "log_training_loss": "training loss"}
"""What is correlated with the gap: the measures, and how well the training data are fitted."""
NAMES = {
    "sgd": "SGD",
    "early_stopping": "early stopping",
    "weight_decay": "weight decay",
    "label_smoothing": "label smoothing",
    "mixup": "mixup",
    "distance": "distance-based",
    "sam": "SAM",
}
MARKS = dict(zip(NAMES, "osD^vPX", strict=True))
COLOURS = dict(zip(NAMES, (*PALETTE, INK), strict=True))


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    Columns:
        loss_gap (nats), error_gap (points): test minus training. test_error, validation_error: in %.
        log_training_loss: base 10. fit: its negative. validation_loss: nats, what strengths are selected by.
        settling: by how much of itself the training loss changed in the last sixth of the steps.
        measure and the others of `MEASURES`.
        vacuity: training loss plus measure over the loss of guessing, log(classes): below 1 it says something.
        slack: measure minus loss gap (nats): below 0 the measure is no bound on the gap.
        measure_without_method, test_measure_without_method: rank correlation of the measure (over training, over test
            points) with the loss gap in the run's seed, its method left out of the seven; partial_without_method,
            test_partial_without_method: given the training loss.
        regime_reached: the run is complete and fine-tuning lowered the training loss.
    """
    table = records.set_index("run")
    rows = pd.DataFrame(index=table.index)
    rows["loss_gap"] = table["test_loss"] - table["training_loss"]
    rows["error_gap"] = 100 * (table["test_error"] - table["training_error"])
    rows["test_error"], rows["validation_error"] = 100 * table["test_error"], 100 * table["validation_error"]
    rows["validation_loss"] = table["validation_loss"]
    rows["log_training_loss"] = np.log10(table["training_loss"])
    for name in MEASURES:
        rows[name] = table[name]
    rows["vacuity"] = (table["training_loss"] + table["measure"]) / np.log(table["classes"])
    rows["slack"] = table["measure"] - rows["loss_gap"]
    rows["fit"] = -rows["log_training_loss"]
    rows["settling"] = (1 - table["training_loss"] / table["settling_training_loss"]).abs()
    rows["regime_reached"] = table["training_loss"] < table["first_training_loss"]
    return rows.join(_without_a_method(rows.join(table[["system", "method", "seed"]])))


def _without_a_method(table: pd.DataFrame) -> pd.DataFrame:
    """What the measure's rank correlations with the loss gap are over the other methods of a run's system and seed."""
    found = pd.DataFrame(index=table.index, columns=[*WITHOUT], dtype=float)
    for _, part in table.groupby(["system", "seed"], sort=False):
        for method, own in part.groupby("method", sort=False):
            others = part[part["method"] != method]
            for name, (measure, given) in WITHOUT.items():
                found.loc[list(own.index), name] = rank_correlation(others, measure, given)
    return found


def rank_correlation(table: pd.DataFrame, measure: str, given: str | None = None) -> float:
    """Spearman's correlation of a column with `loss_gap`; partial given another column."""
    names = [measure, "loss_gap"] if given is None else [measure, "loss_gap", given]
    matrix = table[names].corr(method="spearman").to_numpy()
    if given is None:
        return float(matrix[0, 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt((1 - matrix[0, 2] ** 2) * (1 - matrix[1, 2] ** 2))
        return float((matrix[0, 1] - matrix[0, 2] * matrix[1, 2]) / scale)


def selected(table: pd.DataFrame) -> pd.DataFrame:
    """Of each system, method and seed the run whose strength has the lowest validation loss."""
    best = table.groupby(["system", "method", "seed"], sort=False)["validation_loss"].idxmin()
    return table.loc[best]


def within_seed_correlations(table: pd.DataFrame) -> pd.DataFrame:
    """Rank correlation of each predictor with the loss gap over all settings of a system and seed: a row each.

    `partial` is that given the training loss, of the training loss itself none.
    """
    rows = []
    for (system, seed), part in table.groupby(["system", "seed"], sort=False):
        for name in PREDICTORS:
            partial = math.nan if name == "log_training_loss" else rank_correlation(part, name, "log_training_loss")
            value = rank_correlation(part, name)
            rows.append({"system": system, "seed": seed, "measure": name, "correlation": value, "partial": partial})
    return pd.DataFrame(rows)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """The measure against the gap, the methods side by side, the correlations of all measures."""
    axes = records.set_index("run")[["system", "method", "strength", "seed"]]
    table = metrics(records).join(axes)
    systems = system_names(records)
    found = {
        "fig2": _scatter(table, systems),
        "fig2_methods": _methods(table, systems),
        "fig2_correlations": _correlations(table, systems),
    }
    for figure in found.values():
        say_setting(figure, records)
    return found


def _scatter(table: pd.DataFrame, systems: dict[str, str]) -> Figure:
    """A point a method and strength: means over seeds."""
    figure, panels = subplots(1, len(systems), size=(4.0 * len(systems) + 2.0, 4.2), squeeze=False)
    means = table.groupby(["system", "method", "strength"], sort=False)[["measure", "loss_gap"]].mean().reset_index()
    for axes, system in zip(panels[0], systems, strict=True):
        for method, name in NAMES.items():
            part = means[(means["system"] == system) & (means["method"] == method)]
            axes.plot(part["measure"], part["loss_gap"], MARKS[method], color=COLOURS[method], markersize=7, label=name)
        axes.set(title=systems[system], xlabel="Hessian measure")
        log_axis(axes, "x", (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5))
    panels[0, 0].set_ylabel("test − training loss (nats)")
    figure.suptitle("Figure 2 · the measure and the gap, four strengths a method", x=0.01, ha="left")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def _methods(table: pd.DataFrame, systems: dict[str, str]) -> Figure:
    """Gap and measure of each method at the strength that validation selects, a point a seed."""
    best = selected(table)
    figure, panels = subplots(2, len(systems), size=(4.4 * len(systems) + 0.6, 6.4), squeeze=False, sharey=True)
    columns = {"loss_gap": "test − training loss (nats)", "measure": "Hessian measure"}
    methods = [method for method in NAMES if (best["method"] == method).any()]
    for row, (column, label) in zip(panels, columns.items(), strict=True):
        for axes, system in zip(row, systems, strict=True):
            values = [best[(best["system"] == system) & (best["method"] == method)][column] for method in methods]
            dots(axes, values, [COLOURS[method] for method in methods])
            axes.set_yticks(range(len(methods)), [NAMES[method] for method in methods])
            axes.set(title=systems[system], xlabel=label, ylim=(len(methods) - 0.5, -0.5))
    figure.suptitle("Figure 2 · methods at the strength that validation selects", x=0.01, ha="left")
    return figure


def _correlations(table: pd.DataFrame, systems: dict[str, str]) -> Figure:
    """Rank correlation with the gap of all predictors, a point a seed; hollow: given the training loss."""
    values = within_seed_correlations(table)
    figure, panels = subplots(1, len(systems), size=(4.0 * len(systems) + 1.6, 4.2), squeeze=False, sharey=True)
    for axes, system in zip(panels[0], systems, strict=True):
        part = values[values["system"] == system]
        shades = [PALETTE[0]] * 3 + [PALETTE[2]] * 3 + [PALETTE[1]] * 3 + [PALETTE[5]]
        dots(axes, [part.loc[part["measure"] == name, "correlation"] for name in PREDICTORS], shades)
        partial = part.groupby("measure")["partial"].mean().reindex(list(PREDICTORS)).to_numpy()
        axes.plot(
            partial, np.arange(len(partial)) + 0.36, "D", color="#5c6674", fillstyle="none", mew=1.2, label="_partial"
        )
        axes.axvline(0, color="#5c6674", linewidth=0.8, label="_zero")
        axes.set_yticks(range(len(PREDICTORS)), list(PREDICTORS.values()))
        axes.set(title=systems[system], xlabel="rank correlation with the gap", xlim=(-1.05, 1.05))
        axes.set_xticks([-1, -0.5, 0, 0.5, 1])
        axes.set_ylim(len(PREDICTORS) - 0.5, -0.5)
    figure.suptitle("Figure 2 · what predicts the gap, within seeds; ◇ given the training loss", x=0.01, ha="left")
    return figure
