"""Figure 16 on its second data set: whether SGD would stay at the minima that it selected, exactly."""

from collections.abc import Sequence

from common.experiments import RunContext

from .mean_square_stability import run as measure
from .shared.selected_minima import SelectionParameters


class Parameters(SelectionParameters):
    """Settings of a run; those of the minimum are as in the selection diagram."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Hold each minimum against the exact threshold."""
    measure(runs, context)
