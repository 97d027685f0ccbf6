"""`full_fine_tuning` of a text encoder: an experiment of its own, because it takes three times as long as images."""

from collections.abc import Sequence

from common.experiments import RunContext

from .full_fine_tuning import Parameters as Tuning
from .full_fine_tuning import run as fine_tune


class Parameters(Tuning):
    """Those of `full_fine_tuning`."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Do what `full_fine_tuning` does."""
    fine_tune(runs, context)
