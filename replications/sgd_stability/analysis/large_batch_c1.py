"""Metrics and figures of the comparison of batch sizes with C1, as those with F1 are."""

import pandas as pd
from matplotlib.figure import Figure

from . import large_batch
from .large_batch import metrics

__all__ = ["figures", "metrics"]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`table4_c1` (ε-sharpness at the end and at equal training loss) and `table2_c1` (accuracies)."""
    return {f"{name}_c1": figure for name, figure in large_batch.figures(records).items()}
