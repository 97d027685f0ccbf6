"""From trained interpolants to one row a run, and the figure of Theorem 3."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots

FEW = 320
"""Examples up to which the bound was found to say nothing from initial weights × 0.3: the laptop's grid ends here."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; the regime is interpolation.

    The bound is Tr²(G)/n. It says something where it lies below E f*², the error of f = 0.

    Of a run: `theorem3_ratio` is E|f − f*|² n/Tr²(G) where the bound says something, and missing elsewhere;
    `log_bound_over_target` is log of bound over E f*²; `log_error_over_bound` log of E|f − f*|² over the bound;
    `relative_error` is E|f − f*|² over E f*²; `residual_share` the mean square error on the training examples over the
    population error, near 1 where only the end of training is seen; `path_norm_ratio` is Tr G over √d ‖θ‖_P, at least
    1 for n = ∞. `…_beyond` is the distance from the mean over seeds at equal n and equal initial weights.

    Of all runs of a seed: `theorem3_worst_ratio` is the largest `theorem3_ratio`. Of all runs of a seed with the same
    initial weights: `log_bound_over_target_to_320` is the smallest `log_bound_over_target` at 320 examples or fewer,
    and `log_examples_needed` the logarithm of the n from which on the bound says something, linear in log n between two
    n of the grid. Missing where there is none.
    """
    table = records.set_index("run")
    bound = table["trace"] ** 2 / table["examples"]
    speaks = bound < table["target_power"]
    result = pd.DataFrame(index=table.index)
    of_start = [table["seed"], table["start_scale"]]
    result["theorem3_ratio"] = (table["population_error"] / bound).where(speaks)
    result["theorem3_worst_ratio"] = result["theorem3_ratio"].groupby(table["seed"]).transform("max")
    result["log_bound_over_target"] = np.log(bound / table["target_power"])
    few = result["log_bound_over_target"].where(table["examples"] <= FEW)
    result["log_bound_over_target_to_320"] = few.groupby(of_start).transform("min")
    result["log_examples_needed"] = np.nan
    for _, part in table.groupby(of_start):
        crossing = _log_examples_needed(part["examples"], result.loc[part.index, "log_bound_over_target"])
        result.loc[part.index, "log_examples_needed"] = crossing
    result["log_examples"] = np.log(table["examples"])
    result["log_error_over_bound"] = np.log(table["population_error"] / bound)
    result["log_population_error"] = np.log(table["population_error"])
    result["log_trace"] = np.log(table["trace"])
    setting = [table["examples"], table["start_scale"]]
    for name in ("log_population_error", "log_trace"):
        result[f"{name}_beyond"] = result[name] - result[name].groupby(setting).transform("mean")
    result["relative_error"] = table["population_error"] / table["target_power"]
    result["residual_share"] = table["training_error"] * table["target_power"] / table["population_error"]
    result["path_norm_ratio"] = table["trace"] / (table["dimension"] ** 0.5 * table["path_norm"])
    result["training_error"] = table["training_error"]
    result["regime_reached"] = table["training_error"] < table["interpolation"]
    return result


def _log_examples_needed(examples: pd.Series, log_ratio: pd.Series) -> float:
    """Log of the n at which `log_ratio` falls below 0 for the last time; nan if it does not within these n."""
    order = examples.argsort()
    n, height = np.log(examples.to_numpy(float)[order]), log_ratio.to_numpy()[order]
    silent = np.flatnonzero(height >= 0)
    if not len(silent) or silent[-1] + 1 == len(n):
        return float("nan")
    last = silent[-1]
    return float(n[last] + (n[last + 1] - n[last]) * height[last] / (height[last] - height[last + 1]))


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Population error and Tr²(G)/n over n, for flat and for sharp interpolants."""
    starts = sorted(records["start_scale"].unique())
    figure, panels = subplots(1, len(starts), size=(4.2 * len(starts), 4.2), sharey=True, squeeze=False)
    frame = records.assign(bound=records["trace"] ** 2 / records["examples"])
    columns = {"bound": "Tr²(G)/n, Theorem 3 without its factor", "population_error": "E|f − f*|²"}
    for axes, start in zip(panels[0], starts, strict=True):
        part = frame[frame["start_scale"] == start]
        mean_bands(axes, part, "examples", columns, log=True, markers=True)
        reference_line(axes, y=float(part["target_power"].mean()), label="E f*², the error of f = 0")
        parameters = float(part["width"].iloc[0] * (part["dimension"].iloc[0] + 1))
        if part["examples"].min() < parameters < part["examples"].max():
            reference_line(axes, x=parameters, label="as many examples as parameters").set_linestyle(":")
        log_axis(axes, "x", ticks=sorted(part["examples"].unique())[::2])
        axes.set(xlabel="examples n", title=f"initial weights × {start:g}")
    panels[0, 0].set_yscale("log")
    panels[0, 0].set_ylabel("squared error")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    note(figure, "target and training of our choice (D23)", "deviation")
    return {"theorem3": figure}
