"""Section 2 for networks: under each rule λ₁ rises to the maximum stable sharpness of that rule, and stays there."""

from collections.abc import Sequence

from common.experiments import RunContext

from .shared.setting import Setting
from .shared.training import Training


class Parameters(Setting):
    """Settings of a run; the grid varies the rule and where its edge lies."""


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one rule and follow λ₁."""
    training = Training(runs, context)
    training.restore(context.restore())
    training.follow()
