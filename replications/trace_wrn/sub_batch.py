"""Does the trace of an eighth of each mini-batch do what that of the whole does? The document leaves it open."""

from collections.abc import Sequence

from common.experiments import RunContext

from . import trace_regulariser
from .trace_regulariser import Parameters as RegulariserParameters


class Parameters(RegulariserParameters):
    """Settings: those of the trace regulariser; the grid varies the arm."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train one network with one arm's penalty; losses, Tr G and the norm at the end."""
    trace_regulariser.run(runs, context)
