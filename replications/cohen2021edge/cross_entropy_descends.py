"""Cross-entropy: λ₁ rises to 2/η as with squared loss, but falls again at the end of training."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.setting import Setting
from .shared.training import Training


class Parameters(Setting):
    """Settings of a run; the grid varies the loss."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds on one loss by gradient descent and follow λ₁."""
    training = Training(runs, context)
    training.restore(context.restore())
    training.follow()
