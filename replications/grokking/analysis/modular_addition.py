"""Figure 4 and its numbers: a row a run, accuracy over steps, fluctuation and curvature of every arm."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from common.figures import mean_band, placeholder, subplots

from .shared.accuracies import accuracy_panels, dots, say_setting
from .shared.grokked_runs import run_metrics

CENSORING = 10
"""Times the median time to grok of the arm with large decay that a run must last to be said not to grok."""
REFERENCE = "large_decay"
UNREGULARISED = ("none", "small_decay")
PANELS = {
    "none": "a · no weight decay",
    "small_decay": "b · small weight decay",
    "large_decay": "c · large weight decay",
    "large_decay_nso": "d · large decay, noise (NSO)",
    "large_decay_wp_sgd": "control · large decay, WP-SGD",
    "large_decay_half_lr": "control · half the learning rate",
}
SHORT = {
    "none": "no decay",
    "small_decay": "small decay",
    "large_decay": "large decay",
    "large_decay_nso": "… and NSO",
    "large_decay_wp_sgd": "… and WP-SGD",
    "large_decay_half_lr": "… half rate",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """`run_metrics` of the arms of Fig. 4, and whether each run says something (`regime_reached`).

    An arm without or with small decay does if it lasted ten times the median time to grok with large decay, where a
    run that never did counts as infinite; the others if the run is complete, so that one that never reaches 99 % counts
    as such. What needs the time or the window after it has no value there.
    """
    table = run_metrics(records)
    table["regime_reached"] = table["final_accuracy"].notna()
    waited = waited_long_enough(table, records)
    table.loc[waited.index, "regime_reached"] = waited
    return table


def waited_long_enough(table: pd.DataFrame, records: pd.DataFrame) -> pd.Series:
    """Whether each run without or with small decay lasted `CENSORING` times the median time to grok with large decay.

    A run with large decay that never groks counts as infinite. Runs of other arms are left out.
    """
    arms = records.groupby("run", sort=False)["arm"].first().reindex(table.index)
    median = table.loc[arms == REFERENCE, "time_to_grok"].fillna(np.inf).median()
    return table.loc[arms.isin(UNREGULARISED), "length"] >= CENSORING * median


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Figure 4, the fluctuation of each arm, and the Hessian along the way."""
    records = records[records["arm"].isin(PANELS)]
    arms = [arm for arm in PANELS if (records["arm"] == arm).any()]
    return {
        "fig4": accuracy_panels(
            records, "arm", {arm: PANELS[arm] for arm in arms}, "Figure 4 · accuracy modulo {modulus}"
        ),
        "fig4_fluctuation": _fluctuation(records, arms),
        "fig4_hessian": _curvature(records, arms),
    }


def _fluctuation(records: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Every seed: time to grok, fluctuation after it, drops, fluctuation at the end."""
    table = run_metrics(records).join(records.groupby("run", sort=False)["arm"].first())
    columns = {
        "time_to_grok": "steps to 99 %",
        "fluctuation": "fluctuation after\n99 % (points)",
        "drops": "drops by more\nthan 5 points",
        "late_fluctuation": "fluctuation at\nthe end (points)",
    }
    title = "Figure 4 · time to grok and fluctuation"
    return dots(table, "arm", arms, columns, title=title, records=records, names=SHORT)


def _curvature(records: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Tr H on training and validation pairs, λ₁, and Tr H per nat of loss along the run, geometric means over seeds.

    Times at which a value of some seed is not positive, as early in training, are left out.
    """
    rows = records[(records["kind"] == "curvature") & (records["step"] > 0)].copy()
    rows["per_nat"] = rows["trace"] / rows["curvature_loss"].where(rows["curvature_loss"] > 0)
    columns = {
        "trace": "Tr H, training",
        "validation_trace": "Tr H, validation",
        "sharpness": "λ₁, training",
        "per_nat": "Tr H / loss, training (1/nat)",
    }
    every = rows[list(columns)].gt(0).all(axis=1).groupby([rows["arm"], rows["step"]]).transform("all")
    if rows.empty or not every.any():
        return placeholder("Figure 4 · the Hessian along the run", "No run has a positive trace.")
    rows["share"] = (100 * rows["step"] / (rows["steps"] * rows["lengthening"])).round()
    figure, panels = subplots(2, 2, size=(7.6, 6.2), sharex=True)
    rows["name"] = rows["arm"].map(SHORT)
    ordered = pd.concat([rows[every & (rows["arm"] == arm)] for arm in arms])
    for axes, (column, label) in zip(panels.flat, columns.items(), strict=True):
        mean_band(axes, ordered, "share", column, group="name", markers=True, log=True)
        axes.set_yscale("log")
        axes.set_title(label)
        axes.set_xlabel("share of the run (%)" if axes in panels[-1] else "")
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3, title="geometric means, 95 %"
    )
    say_setting(figure, records)
    return figure
