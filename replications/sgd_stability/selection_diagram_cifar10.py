"""Figure 16 on its second data set: the minima that SGD selects for a small VGG on two classes of CIFAR-10."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.selected_minima import SelectionParameters, train_and_measure


class Parameters(SelectionParameters):
    """Settings of a run; the grid varies `batch_size` at one learning rate."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one batch size to the stopping loss; measure the minima."""
    train_and_measure(runs, context)
