"""Figure 4 where generalisation is ten times as late as the fit: noise of several strengths, and controls."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.training import TrainingParameters, train_and_measure


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies the arm."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together and measure along the way."""
    train_and_measure(runs, context)
