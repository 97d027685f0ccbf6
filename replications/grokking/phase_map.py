"""Where is grokking? Time to fit, time to generalise and fluctuation over weight decay, learning rate and share."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.training import TrainingParameters, train_and_measure


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies decay, rate and the share of the table."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one cell of the map together and measure along the way."""
    train_and_measure(runs, context)
