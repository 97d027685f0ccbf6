"""Section 2 for networks: under each rule λ₁ rises to the maximum stable sharpness of that rule, and stays there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.experiments import RunContext

from .setting import Setting
from .training import Training

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Parameters(Setting):
    """Settings of a run; the grid varies the rule and where its edge lies."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one rule and follow λ₁."""
    training = Training(runs, context)
    training.restore(context.restore())
    training.follow()


def metrics(records: "pd.DataFrame") -> "pd.DataFrame":
    """One row a run: λ₁ over the edge after it was first reached, and λ₁ · η."""
    from .edge_analysis import plateau_metrics

    return plateau_metrics(records)


def figures(records: "pd.DataFrame") -> "dict[str, Figure]":
    """λ₁ over the edge along training, and λ₁ · η of each rule beside its threshold."""
    from .edge_figures import plateau_figures

    return plateau_figures(records)
