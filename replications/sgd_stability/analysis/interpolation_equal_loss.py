"""Metrics and figure of the line at equal training loss, as those of Fig. 6 are but for the regime."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from . import interpolation

EQUAL = 1.5
"""Ratio of the ends' training losses up to which they count as equal."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`, with the columns of Fig. 6; its regime is that the ends' losses are equal."""
    table = interpolation.metrics(records)
    for name, part in records.groupby("run", sort=False):
        line = part.sort_values("alpha")
        ends = np.interp([0, 1], line["alpha"], line["training_loss"])
        table.loc[name, "regime_reached"] = bool(ends.max() <= EQUAL * ends.min())
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig6_equal_loss`."""
    return {f"{name}_equal_loss": figure for name, figure in interpolation.figures(records).items()}
