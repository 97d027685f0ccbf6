"""From the records of trained graph networks to one row a run, and the panels of Figure 5."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import MARKERS, PALETTE, note, subplots

from .shared.labels import MODELS, SERIES

SMALLEST_GAP = 1e-3  # nats; gaps below are drawn here
SETS = {
    "mutag": "MUTAG",
    "generated": "generated",
    "imdb_binary": "IMDB-BINARY",
    "imdb_multi": "IMDB-MULTI",
    "collab": "COLLAB",
}
READINGS = {  # column: (label, colour of its bound, line)
    "log10_garg": ("Garg et al., activations unlimited", PALETTE[1], "-"),
    "log10_garg_plus_one": ("… with d + 1", PALETTE[1], ":"),
    "log10_garg_saturated": ("… activations at most 1", PALETTE[1], "--"),
    "log10_liao": ("Liao et al.", PALETTE[4], "-"),
    "log10_liao_plus_one": ("… with d + 1", PALETTE[4], ":"),
    "log10_ours": ("eq. (12), l − 1 diffusions", PALETTE[0], "-"),
    "log10_ours_fewer_diffusions": ("… l − 2, as the MPNN has", PALETTE[0], "--"),
}
HIDDEN = "hidden constants of all bounds are one; d is the largest degree"


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: log₁₀ ratios of bounds and of the Hessian measures to the gap.

    Ratios of bounds are there as they stand, with Garg's limit on activations, which his theorem contains
    (`garg_saturated`), and with the l − 2 diffusions that the MPNN makes in (12) (`ours_fewer_diffusions`; NaN for a
    GCN).

    The gap that the Hessian measures are compared with is the mean over a seed's folds. It may be negative: logarithms
    have no value then, and `hessian_within_ten` is 0 (1 where the measure lies between a tenth and ten times of it).
    """
    table = records.set_index("run").copy()
    table["gap"] = table["test_loss"] - table["training_loss"]
    keys = ["dataset", "model", "depth", "seed"]
    pooled = table.groupby(keys, dropna=False)["gap"].transform("mean")
    known = np.log10(pooled.where(pooled > 0))
    result = table[
        ["gap", "training_loss", "test_loss", "training_error", "test_error", "log10_spectral_product"]
    ].copy()
    result["error_gap"] = table["test_error"] - table["training_error"]
    for name in ("ours", "liao", "garg"):
        result[f"log10_{name}"] = table[f"log10_{name}"]
    for upper, lower in (("liao", "ours"), ("garg", "liao"), ("garg", "ours")):
        result[f"log10_{upper}_over_{lower}"] = table[f"log10_{upper}"] - table[f"log10_{lower}"]
    fewer = table.get("log10_ours_fewer_diffusions", np.nan)
    for upper in ("liao", "garg", "garg_saturated"):
        result[f"log10_{upper}_over_ours_fewer_diffusions"] = table[f"log10_{upper}"] - fewer
    for lower in ("liao", "ours"):
        result[f"log10_garg_saturated_over_{lower}"] = table["log10_garg_saturated"] - table[f"log10_{lower}"]
    result["log10_hessian_over_gap"] = np.log10(table["hessian_measure"].where(table["hessian_measure"] > 0)) - known
    result["hessian_distance"] = result["log10_hessian_over_gap"].abs()
    result["hessian_within_ten"] = table["hessian_measure"].between(pooled / 10, 10 * pooled, "neither").astype(float)
    result["hessian_trace"] = table["hessian_trace"]
    return result.assign(regime_reached=table["training_loss"] < 0.95 * table["guessing_loss"])


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Figure 5 with the measured gap, and the ratios of the bounds over depth in both readings of d."""
    values = records.copy()
    values["gap"] = np.log10((values["test_loss"] - values["training_loss"]).clip(lower=SMALLEST_GAP))
    values["hessian"] = np.log10(values["hessian_measure"].clip(lower=1e-12))
    values["trace"] = np.log10(values["trace_measure"].clip(lower=1e-12))
    for name in ("ours", "liao", "garg"):
        values[name] = values[f"log10_{name}"]
    return {"fig5": _bounds(values), "fig5_readings": _readings(values), "fig5_ratios": _ratios(values)}


def _bounds(values: pd.DataFrame) -> Figure:
    expected = ["imdb_binary", "imdb_multi", "collab"]
    sets = [name for name in SETS if (values["dataset"] == name).any()]
    if any(name in sets for name in expected):
        sets = [name for name in SETS if name in {*sets, *expected}]
    figure, panels = subplots(2, len(sets), size=(1.2 + 4.0 * len(sets), 6.6), sharey=True, squeeze=False)
    depths = sorted(values["depth"].unique())
    for row, model in enumerate(MODELS):
        for axes, name in zip(panels[row], sets, strict=True):
            part = values[(values["dataset"] == name) & (values["model"] == model)]
            axes.set_title(f"{MODELS[model]} · {SETS[name]}")
            if part.empty:
                axes.text(0.5, 0.5, "not run: data out of reach", ha="center", transform=axes.transAxes)
            for number, (column, (label, colour, marker)) in enumerate(SERIES.items()):
                seeds = part.groupby(["depth", "seed"])[column].mean().reset_index()
                spread = seeds.groupby("depth")[column].agg(["mean", "min", "max"])
                at = np.array([depths.index(depth) for depth in spread.index]) + 0.09 * (number - 2.5)
                low, high = spread["mean"] - spread["min"], spread["max"] - spread["mean"]
                axes.errorbar(at, spread["mean"], yerr=[low, high], fmt=marker, color=colour, markersize=6, label=label)
            axes.set_xticks(range(len(depths)), [str(depth) for depth in depths])
            axes.set_xlim(-0.5, len(depths) - 0.5)
    for axes in panels[-1]:
        axes.set_xlabel("layers $l$")
    for axes in panels[:, 0]:
        axes.set_ylabel("$\\log_{10}$ of bound or gap (nats)")
    handles, labels = next(
        axes for axes in panels.flat if axes.get_legend_handles_labels()[1]
    ).get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    if not any(name in sets for name in expected):
        note(figure, "D2: MUTAG and generated graphs in place of IMDB-BINARY, IMDB-MULTI and COLLAB", "substitution")
    note(figure, f"{HIDDEN} (D5). Mean and range over seeds; gaps below {SMALLEST_GAP:g} are drawn there", "deviation")
    return figure


def _readings(values: pd.DataFrame) -> Figure:
    """Every reading of every bound over the depth, means over seeds and folds; a row a network, a column a data set."""
    sets = [name for name in SETS if (values["dataset"] == name).any()]
    figure, panels = subplots(2, len(sets), size=(1.2 + 4.0 * len(sets), 6.8), sharex=True, squeeze=False)
    for row, model in enumerate(MODELS):
        for axes, name in zip(panels[row], sets, strict=True):
            part = values[(values["dataset"] == name) & (values["model"] == model)]
            means = part.groupby("depth").mean(numeric_only=True)
            for place, (column, (label, colour, line)) in enumerate(READINGS.items()):
                known = means.get(column, pd.Series(dtype=float)).dropna()
                marker = MARKERS[place % len(MARKERS)]
                axes.plot(known.index, known, color=colour, linestyle=line, marker=marker, markersize=5, label=label)
            axes.set_title(f"{MODELS[model]} · {SETS[name]}")
            axes.set_xticks(sorted(values["depth"].unique()))
    for axes in panels[-1]:
        axes.set_xlabel("layers $l$")
    for axes in panels[:, 0]:
        axes.set_ylabel("$\\log_{10}$ of the bound")
    figure.legend(*panels[1, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, f"{HIDDEN} (D5). Means over seeds and folds", "deviation")
    return figure


def _ratios(values: pd.DataFrame) -> Figure:
    figure, panels = subplots(1, 2, size=(9.0, 4.0), sharey=True)
    sets = list(dict.fromkeys(values["dataset"]))
    depths = sorted(values["depth"].unique())
    for axes, model in zip(panels, MODELS, strict=True):
        part = values[values["model"] == model]
        for number, name in enumerate(sets):
            own = part[part["dataset"] == name].groupby("depth").mean(numeric_only=True)
            for upper, colour in (("liao", PALETTE[4]), ("garg", PALETTE[1])):
                first = name == sets[0]
                label = f"{SERIES[upper][0]} / eq. (12)"
                axes.plot(
                    own.index,
                    own[upper] - own["ours"],
                    marker=MARKERS[number],
                    color=colour,
                    markersize=6,
                    label=label if first else f"_{label} {name}",
                )
                axes.plot(
                    own.index,
                    own[f"log10_{upper}_plus_one"] - own["ours"],
                    linestyle=":",
                    color=colour,
                    label="the same with $d+1$" if first and upper == "liao" else f"_{label} {name} plus one",
                )
            axes.plot([], [], MARKERS[number], color=PALETTE[5], label=SETS.get(name, name))
        axes.axhline(0, color="#8a8f98", linestyle="--", linewidth=1.2, label="_equal")
        axes.set(title=MODELS[model], xlabel="layers $l$")
        axes.set_xticks(depths)
    panels[0].set_ylabel("$\\log_{10}$ of the ratio of bounds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    note(figure, f"{HIDDEN}, dotted: plus one as in Liao et al. Means over seeds and folds", "deviation")
    return figure
