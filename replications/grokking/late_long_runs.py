"""Figures 4a and 4b where generalisation is late, in runs ten times as long as large decay takes to generalise."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.training import TrainingParameters, train_and_measure


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies the arm."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together, evaluating along the way."""
    train_and_measure(runs, context)
