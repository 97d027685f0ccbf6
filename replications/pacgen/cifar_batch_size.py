"""Figure 4: generalisation gap and Ψ on CIFAR-10 for different batch sizes."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.cifar_sweep import CifarSweepParameters, prepare_colours
from .shared.sweep import train_and_measure


class Parameters(CifarSweepParameters):
    """Settings of a run; the grid varies `batch_size` and `momentum`."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one batch size and momentum together and measure along the way."""
    train_and_measure(runs, context, prepare_colours)
