"""Figure 3."""

import pandas as pd
from matplotlib.figure import Figure

from .shared.sweep_figures import sweep_figures
from .shared.sweep_metrics import sweep_metrics


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: every measure at the last epoch, and where the training loss first passes 0.05 nats."""
    return sweep_metrics(records, "batch_size")


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Figure 3 and what it becomes at matched training loss and with the Hessian in place of squared gradients."""
    return sweep_figures(records, "batch_size", "fig3")
