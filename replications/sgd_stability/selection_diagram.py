"""Figure 16: sharpness and non-uniformity of the minima that SGD finds, and the regions where it is stable."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.selected_minima import SelectionParameters, train_and_measure


class Parameters(SelectionParameters):
    """Settings of a run; the grid varies `batch_size` at the learning rate of the figure."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one batch size to the stopping loss; measure the minima."""
    train_and_measure(runs, context)
