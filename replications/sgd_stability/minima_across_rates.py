"""Figure 17: non-uniformity against sharpness over learning rates and batch sizes."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.selected_minima import SelectionParameters, train_and_measure


class Parameters(SelectionParameters):
    """Settings of a run; the grid varies `learning_rate` and `batch_size`."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one setting to the stopping loss; measure the minima."""
    train_and_measure(runs, context, keep=False)
