"""Metrics and figure of the two rows that differ by the penalty alone, as those of the whole table are."""

import pandas as pd
from matplotlib.figure import Figure

from . import gd_against_sgd
from .gd_against_sgd import metrics

__all__ = ["figures", "metrics"]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig4_penalty`: test accuracy and training loss at the end of both rows."""
    return {f"{name}_penalty": figure for name, figure in gd_against_sgd.figures(records).items()}
