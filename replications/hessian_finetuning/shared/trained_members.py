"""Fine-tune all seeds of a setting by SGD, then measure them one after the other, through any interruption."""

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from common.experiments import RunContext

from .fine_tuning import FineTuning, Member, TuningParameters

Run = TypeVar("Run", bound=TuningParameters)


def trained_members(
    runs: Sequence[Run], context: RunContext, tuning: FineTuning, measuring: float
) -> Iterator[tuple[Run, Member, dict[str, float]]]:
    """Advance `tuning` to its end; then, for each member, its run, the member, and its losses and errors.

    What a caller records of a member before it asks for the next one is kept as a whole. A member whose training
    diverged is reported to the framework and passed over.

    Args:
        measuring: gradients of an example that measuring one member is worth, for the progress.
    """
    measured = 0
    training = runs[0].budget * runs[0].batch_size
    if (state := context.restore()) is not None:
        tuning.restore(state["tuning"])
        measured = state["measured"]
    while tuning.step < tuning.total:
        tuning.advance()
        context.progress(training * tuning.step / tuning.total, training + measuring)
        context.checkpoint({"tuning": tuning.state(), "measured": 0})
    rows = tuning.performance()
    for member in range(measured, len(runs)):
        if math.isfinite(rows[member]["training_loss"]):
            yield runs[member], tuning.member(member), rows[member]
        else:
            context.diverged(runs[member], f"training loss not finite after {tuning.total} steps")
        context.progress(training + measuring * (member + 1) / len(runs), training + measuring)
        context.checkpoint({"tuning": tuning.state(), "measured": member + 1})
