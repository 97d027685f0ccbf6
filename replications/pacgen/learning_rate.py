"""Figure 5: generalisation gap and Ψ on MNIST for different learning rates."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.sweep import train_and_measure
from .shared.sweep_setting import SweepParameters


class Parameters(SweepParameters):
    """Settings of a run; the grid varies `learning_rate`."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one learning rate together and measure along the way."""
    train_and_measure(runs, context)
