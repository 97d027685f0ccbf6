"""Runs that are computed one after the other, through any interruption."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from common.experiments.context import RunContext
from common.experiments.parameters import ExperimentParameters

Run = TypeVar("Run", bound=ExperimentParameters)


def one_by_one(runs: Sequence[Run], context: RunContext) -> Iterator[Run]:
    """Each run that is still to be computed; what is recorded of it is kept once the next one is asked for."""
    state = context.restore() or {"done": 0}
    for number in range(state["done"], len(runs)):
        yield runs[number]
        context.progress(number + 1, len(runs))
        context.checkpoint({"done": number + 1})
