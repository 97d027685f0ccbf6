"""Metrics and figures of the column of CIFAR-10, as those of Table 1 and Fig. 14 are."""

import pandas as pd
from matplotlib.figure import Figure

from . import edge_of_stability
from .edge_of_stability import metrics

__all__ = ["figures", "metrics"]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`table1_cifar10` and `fig14_cifar10`."""
    return {f"{name}_cifar10": figure for name, figure in edge_of_stability.figures(records).items()}
