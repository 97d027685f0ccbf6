"""How much noise? Time to grok, fluctuation and Tr H over σ, with large weight decay."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.training import TrainingParameters, train_and_measure


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies σ."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one σ together and measure along the way."""
    train_and_measure(runs, context)
