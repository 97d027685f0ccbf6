"""Fine-tune all seeds of a setting by SGD, then measure them one after the other, through any interruption."""

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from common.experiments import RunContext

from .fine_tuning import FineTuning, Member, TuningParameters

Run = TypeVar("Run", bound=TuningParameters)

TRAINING = 0.5
"""Share of training in the progress that is shown."""


def trained_members(
    runs: Sequence[Run], context: RunContext, tuning: FineTuning
) -> Iterator[tuple[Run, Member, dict[str, float]]]:
    """Advance `tuning` to its end; then, for each member, its run, the member, and its losses and errors.

    What a caller records of a member before it asks for the next one is kept as a whole. A member whose training
    diverged is reported to the framework and passed over.
    """
    measured = 0
    if (state := context.restore()) is not None:
        tuning.restore(state["tuning"])
        measured = state["measured"]
    while tuning.step < tuning.total:
        tuning.advance()
        context.progress(TRAINING * tuning.step, tuning.total)
        context.checkpoint({"tuning": tuning.state(), "measured": 0})
    rows = tuning.performance()
    for member in range(measured, len(runs)):
        if math.isfinite(rows[member]["training_loss"]):
            yield runs[member], tuning.member(member), rows[member]
        else:
            context.diverged(runs[member], f"training loss not finite after {tuning.total} steps")
        context.progress(TRAINING + (1 - TRAINING) * (member + 1) / len(runs), 1)
        context.checkpoint({"tuning": tuning.state(), "measured": member + 1})
