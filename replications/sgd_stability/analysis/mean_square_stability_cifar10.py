"""Metrics and figure of the minima on CIFAR-10, as those on Fashion-MNIST are."""

import pandas as pd
from matplotlib.figure import Figure

from . import mean_square_stability
from .mean_square_stability import metrics

__all__ = ["figures", "metrics"]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`mean_square_stability_cifar10`."""
    return {f"{name}_cifar10": figure for name, figure in mean_square_stability.figures(records).items()}
