"""The line of Figure 6 between the two networks where each first passed the same training loss."""

from collections.abc import Sequence

from common.experiments import RunContext

from .interpolation import Parameters as LineParameters
from .interpolation import run as evaluate


class Parameters(LineParameters):
    """Settings of the line; those of the networks are as in large_batch."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Evaluate θ(α) = (1 − α) θ_small + α θ_large at each α, seed by seed."""
    evaluate(runs, context)
