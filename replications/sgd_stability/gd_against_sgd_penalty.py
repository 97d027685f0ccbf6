"""The last two rows of the table of Figure 4 with one clipping norm for both, so that the penalty alone differs."""

from collections.abc import Sequence

from common.experiments import RunContext

from .gd_against_sgd import Parameters as ComparisonParameters
from .gd_against_sgd import run as compare


class Parameters(ComparisonParameters):
    """Settings of a run; an arm is a row of the table."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one row of the table; record losses and accuracies along the way."""
    compare(runs, context)
