"""Does what Figure 4 shows for addition hold for other operations modulo 97?"""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.training import TrainingParameters, train_and_measure


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies the operation and the arm."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one operation and arm together and measure along the way."""
    train_and_measure(runs, context)
