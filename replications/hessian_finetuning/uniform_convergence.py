"""Claim 2: the trace of the Hessian on n training examples minus that on fresh data, against n."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from common.experiments import Field, RunContext
from common.hessian import Problem

from .shared.example_traces import example_traces
from .shared.fine_tuning import TuningParameters, tuning_of
from .shared.methods import METHODS
from .shared.systems import Name, System, load_systems
from .shared.trained_members import trained_members


class Parameters(TuningParameters):
    """Settings of a run; the grid varies n, and on what the weights were trained."""

    system: Name = Field("digits", description="what is trained", source="deviation D6")
    trained_on: Literal["others", "own"] = Field(
        "own",
        description="the n examples themselves, or the validation examples (then W is fixed before they are drawn)",
        source="Zhang 2024, Claim 2; deviation D6",
    )
    examples: int = Field(100, ge=2, unit="examples", description="n", source="our choice")
    steps: int = Field(300, ge=1, unit="steps", description="length of training", source="our choice")
    subsets: int = Field(400, ge=2, description="draws of n fresh examples at fixed W", source="our choice")

    @property
    def budget(self) -> int:
        """Gradients of a mini-batch."""
        return self.steps


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one n together; exact traces of every example at the end."""
    tuning = tuning_of(runs, context, METHODS["sgd"](1.0), _systems(runs, context))
    for run, member, performance in trained_members(runs, context, tuning):
        fresh = example_traces(Problem(member.model, nn.CrossEntropyLoss(), member.test))
        if run.trained_on == "own":
            own = example_traces(Problem(member.model, nn.CrossEntropyLoss(), member.train))
            difference = float((own.mean() - fresh.mean()).abs())
        else:
            difference = _deviation(fresh, run, context)
        context.record(
            run,
            difference=difference,
            fresh_trace=float(fresh.mean()),
            fresh_spread=float(fresh.std()),
            **tuning.source,
            **performance,
        )


def _systems(runs: Sequence[Parameters], context: RunContext) -> list[System]:
    """Each trains on n of its training examples, or on its validation examples."""
    systems = []
    for run, system in zip(runs, load_systems(runs[0].system, runs, context), strict=True):
        own = replace(system.train, rows=system.train.rows[: run.examples])
        systems.append(replace(system, train=own if run.trained_on == "own" else system.validation))
    return systems


def _deviation(traces: Tensor, run: Parameters, context: RunContext) -> float:
    """Root mean square, over subsets, of the mean trace of n fresh examples minus the mean of all."""
    source = context.generator(run, "probes")
    chosen = torch.randint(len(traces), (run.subsets, run.examples), generator=source)
    return float((traces[chosen].mean(1) - traces.mean()).square().mean().sqrt())
