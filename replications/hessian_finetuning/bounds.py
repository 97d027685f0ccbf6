"""Theorem 1, McAllester's and Catoni's bounds at the trained weights beside the gap, as the network becomes deeper."""

from collections.abc import Sequence

from common.experiments import Field, RunContext

from .shared.bound_values import bound_values, measuring_work
from .shared.fine_tuning import TuningParameters, tuning_of
from .shared.methods import METHODS
from .shared.systems import Name
from .shared.trained_members import trained_members


class Parameters(TuningParameters):
    """Settings of a run; the grid varies the system and the depth."""

    system: Name = Field("digits", description="what is trained", source="deviation D7")
    limit: float = Field(
        4.0, gt=0, unit="nats", description="C: where losses are cut off, to be bounded", source="deviation D7"
    )
    delta: float = Field(0.05, gt=0, lt=1, description="δ of McAllester's and Catoni's bounds", source="our choice")
    sigmas: tuple[float, ...] = Field(
        (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
        description="σ of prior and posterior, with shares of δ",
        source="our choice",
    )
    betas: tuple[float, ...] = Field(
        (0.3, 0.5, 0.7, 0.9), description="β of Catoni's bound, with shares of δ", source="our choice"
    )
    draws: int = Field(2, ge=2, description="draws of the posterior, each taken both ways", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one setting together; every ingredient and every bound at the end."""
    tuning = tuning_of(runs, context, METHODS["sgd"](1.0))
    for run, member, performance in trained_members(runs, context, tuning, measuring_work(runs[0], tuning)):
        values = bound_values(run, member, seed=context.stream_seed(run, "probes"))
        context.record(run, **values, **tuning.source, **performance)
