"""How much later than the fit a run generalises, and which of the talk's panels it looks like."""

import numpy as np
import pandas as pd

from .grokked_runs import GROKKED, run_metrics

LATE = 10
"""Times its time to fit after which a run that generalises does so late."""
STABLE = 1.0
"""Standard deviation of the validation accuracy (points) below which the end of a run counts as stable."""
BEHAVIOURS = {
    "no fit": "does not fit",
    "a": "a · fits only, stable",
    "b": "b · fits only, fluctuates",
    "prompt": "generalises in under 10 × its steps to fit",
    "c": "c · generalises later, fluctuates",
    "d": "d · generalises later, stable",
}
"""What a run does; letters are the panels of Fig. 4 that look so."""


def delay_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """`run_metrics` with how late each run generalises.

    More columns:
        time_to_fit: first evaluated step with a training accuracy of 99 %, NaN if there is none.
        delay_ratio: steps to 99 % of validation over those to 99 % of training. NaN of a run that does not fit, and of
            one that does not generalise within its length: how late it would is not known.
    """
    table = run_metrics(records)
    looks = records[records["kind"] == "evaluation"]
    fitted = looks[looks["training_accuracy"] >= GROKKED].groupby("run")["step"].min()
    table["time_to_fit"] = fitted.reindex(table.index).astype(float)
    table["delay_ratio"] = table["time_to_grok"] / table["time_to_fit"]
    return table


def log_delay_of_grokking(table: pd.DataFrame) -> pd.Series:
    """log10 of `delay_ratio`; 0 of a run that fits and never generalises: what never comes is not late."""
    never = table["time_to_fit"].notna() & table["time_to_grok"].isna()
    return table["delay_ratio"].where(~never, 1.0).map(np.log10)


def behaviour(row: pd.Series) -> str:
    """The key of `BEHAVIOURS` of one row of `delay_metrics`."""
    if not np.isfinite(row["time_to_fit"]):
        return "no fit"
    stable = row["late_fluctuation"] < STABLE
    if not np.isfinite(row["time_to_grok"]):
        return "a" if stable else "b"
    if row["delay_ratio"] < LATE:
        return "prompt"
    return "d" if stable else "c"
