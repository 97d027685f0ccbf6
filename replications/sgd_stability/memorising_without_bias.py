"""Figure 8 without the bias on which Theorem 4 rests, and with it against SGD that has the weight decay, too."""

from collections.abc import Sequence

from common.experiments import Field, RunContext

from .memorising_minimum import WEN, train
from .memorising_minimum import Parameters as Figure8Parameters


class Parameters(Figure8Parameters):
    """Settings: data, network with or without bias, and a budget of gradients of examples that all methods share."""

    bias: bool = Field(True, description="whether neurons of the first layer have a bias", source=WEN)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """One training; one run a call."""
    (run,) = runs
    train(run, context, bias=run.bias)
