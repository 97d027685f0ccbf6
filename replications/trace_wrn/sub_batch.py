"""Does the trace of an eighth of each mini-batch do what that of the whole does? The document leaves it open."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.experiments import RunContext

from . import trace_regulariser
from .trace_regulariser import Parameters as RegulariserParameters

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Parameters(RegulariserParameters):
    """Settings: those of the trace regulariser; the grid varies the arm."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train one network with one arm's penalty; losses, Tr G and the norm at the end."""
    trace_regulariser.run(runs, context)


def metrics(records: "pd.DataFrame") -> "pd.DataFrame":
    """One row a run: accuracies, losses, the training loss in units of that of guessing, log₁₀ Tr G."""
    from .regulariser_analysis import sub_batch_metrics

    return sub_batch_metrics(records)


def figures(records: "pd.DataFrame") -> "dict[str, Figure]":
    """Paired differences from η = 0 of the whole batch's penalty and of an eighth's."""
    from .regulariser_analysis import differences_figure

    return {"sub_batch": differences_figure(records, "Trace of the whole mini-batch and of an eighth")}
