"""A row a run: what the metrics of all training runs are taken from."""

from collections.abc import Callable

import numpy as np
import pandas as pd

Measures = dict[str, float | bool | list[float]]


def by_run(records: pd.DataFrame, measures: Callable[[pd.DataFrame], Measures]) -> pd.DataFrame:
    """The measures of every run, indexed by `run`."""
    rows = [{"run": run, **measures(part)} for run, part in records.groupby("run", sort=False)]
    return pd.DataFrame(rows).set_index("run")


def along_training(part: pd.DataFrame) -> pd.DataFrame:
    """The measurements along training, in its order."""
    return part[part["kind"] == "along"].sort_values("step")


def at_edge(along: pd.DataFrame) -> pd.DataFrame:
    """The measurements from the first at or above the edge on."""
    return along[(along["ratio"] >= 1).cummax()]


def log10_loss(along: pd.DataFrame) -> float:
    """log10 of the last loss over the first."""
    return float(np.log10(along["loss"].iloc[-1] / along["loss"].iloc[0]))
