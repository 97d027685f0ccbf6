"""The column of CIFAR-10 in Table 1: the sharpness of a small VGG that gradient descent has trained."""

from collections.abc import Sequence

from common.experiments import RunContext

from .edge_of_stability import Parameters as EdgeParameters
from .edge_of_stability import run as descend


class Parameters(EdgeParameters):
    """Settings of a run; the grid varies the learning rate."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one learning rate and follow λ₁ with warm starts."""
    descend(runs, context)
