"""Figure 4: accuracy on a + b mod 97 under weight decay, noise injection and controls."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.training import TrainingParameters, train_and_measure


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies the arm."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together and measure along the way."""
    train_and_measure(runs, context)
