"""From trained interpolants to one row a run, and the figure of Theorem 3."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import log_axis, mean_bands, note, reference_line, subplots


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`; the regime is interpolation.

    `theorem3_ratio` is E|f − f*|² n/Tr²(G) where the bound Tr²(G)/n lies below E f*², the error of f = 0, and missing
    where it says less than that; `log_bound_over_target` is log of bound over E f*², `log_error_over_bound` log of the
    ratio in all runs. `…_beyond` is the distance from the mean over seeds at equal n and equal initial weights.
    `path_norm_ratio` is Tr G over √d ‖θ‖_P, at least 1 for n = ∞.
    """
    table = records.set_index("run")
    bound = table["trace"] ** 2 / table["examples"]
    result = pd.DataFrame(index=table.index)
    result["theorem3_ratio"] = (table["population_error"] / bound).where(bound < table["target_power"])
    result["log_bound_over_target"] = np.log(bound / table["target_power"])
    result["log_error_over_bound"] = np.log(table["population_error"] / bound)
    result["log_population_error"] = np.log(table["population_error"])
    result["log_trace"] = np.log(table["trace"])
    setting = [table["examples"], table["start_scale"]]
    for name in ("log_population_error", "log_trace"):
        result[f"{name}_beyond"] = result[name] - result[name].groupby(setting).transform("mean")
    result["relative_error"] = table["population_error"] / table["target_power"]
    result["path_norm_ratio"] = table["trace"] / (table["dimension"] ** 0.5 * table["path_norm"])
    result["training_error"] = table["training_error"]
    result["regime_reached"] = table["training_error"] < table["interpolation"]
    return result


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Population error and Tr²(G)/n over n, for flat and for sharp interpolants."""
    figure, panels = subplots(1, 2, size=(8.4, 4.2), sharey=True)
    frame = records.assign(bound=records["trace"] ** 2 / records["examples"])
    for axes, (start, part) in zip(panels, frame.groupby("start_scale"), strict=False):
        columns = {"bound": "Tr²(G)/n, Theorem 3 without its factor", "population_error": "E|f − f*|²"}
        mean_bands(axes, part, "examples", columns, log=True, markers=True)
        reference_line(axes, y=float(part["target_power"].mean()), label="E f*², the error of f = 0")
        log_axis(axes, "x", ticks=sorted(part["examples"].unique()))
        axes.set(xlabel="examples n", title=f"initial weights × {start:g}")
    panels[0].set_yscale("log")
    panels[0].set_ylabel("squared error")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, "target and training of our choice (D23)", "deviation")
    return {"theorem3": figure}
