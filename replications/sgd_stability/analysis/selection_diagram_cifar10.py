"""Metrics and figures of the minima on CIFAR-10, as those of Fig. 16 on Fashion-MNIST are."""

import pandas as pd
from matplotlib.figure import Figure

from . import selection_diagram
from .selection_diagram import metrics

__all__ = ["figures", "metrics"]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig16_cifar10` and `full_criterion_cifar10`."""
    return {f"{name}_cifar10": figure for name, figure in selection_diagram.figures(records).items()}
