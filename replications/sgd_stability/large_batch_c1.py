"""Tables 1, 2 and 4 of Keskar et al. for C1: the comparison of batch sizes with a shallow convolutional network."""

from collections.abc import Sequence

from common.experiments import RunContext

from .large_batch import Parameters as ComparisonParameters
from .large_batch import run as compare


class Parameters(ComparisonParameters):
    """Settings of a training run and of the measurements at its end."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm with ADAM, measure them at the crossing and at the end, keep the weights."""
    compare(runs, context)
