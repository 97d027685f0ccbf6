"""Figure 6: generalisation gap and Ψ on CIFAR-10 for different learning rates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.experiments import RunContext

from .cifar_sweep import CifarSweepParameters, train_and_measure_on_cifar

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Parameters(CifarSweepParameters):
    """Settings of a run; the grid varies `learning_rate` and `momentum`."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one learning rate and momentum together and measure along the way."""
    train_and_measure_on_cifar(runs, context)


def metrics(records: "pd.DataFrame") -> "pd.DataFrame":
    """One row a run: every measure at the last epoch, and where the training loss first passes 1 nat."""
    from .sweep_analysis import sweep_metrics

    return sweep_metrics(records, "learning_rate")


def figures(records: "pd.DataFrame") -> "dict[str, Figure]":
    """Figure 6 and what it becomes at matched training loss and with the Hessian in place of squared gradients."""
    from .sweep_figures import sweep_figures

    return sweep_figures(records, "learning_rate", "fig6")
