"""Cross-entropy: λ₁ rises to 2/η as with squared loss, but falls again at the end of training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.experiments import RunContext

from .setting import Setting
from .training import Training

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Parameters(Setting):
    """Settings of a run; the grid varies the loss."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds on one loss by gradient descent and follow λ₁."""
    training = Training(runs, context)
    training.restore(context.restore())
    training.follow()


def metrics(records: "pd.DataFrame") -> "pd.DataFrame":
    """One row a run: the peak of λ₁ and its last value over 2/η."""
    from .edge_analysis import descent_metrics

    return descent_metrics(records)


def figures(records: "pd.DataFrame") -> "dict[str, Figure]":
    """λ₁ and the training loss along training, for both losses."""
    from .edge_figures import descent_figures

    return descent_figures(records)
