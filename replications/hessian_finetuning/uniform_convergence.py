"""Claim 2: the trace of the Hessian on n training examples minus that on fresh data, against n."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from common.experiments import Field, RunContext
from common.hessian import Problem

from .shared.example_traces import example_traces
from .shared.fine_tuning import FineTuning, TuningParameters
from .shared.methods import METHODS
from .shared.systems import Name, load_systems
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


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one n together; exact traces of every example at the end."""
    tuning = _tuning(runs, context)
    for member, performance in trained_members(runs, context, tuning):
        run, (_, (inputs, labels), test) = runs[member], tuning.of_member(member)
        fresh = example_traces(Problem(tuning.module(member), nn.CrossEntropyLoss(), test))
        if run.trained_on == "own":
            own = example_traces(Problem(tuning.module(member), nn.CrossEntropyLoss(), (inputs, labels)))
            difference = float((own.mean() - fresh.mean()).abs())
        else:
            difference = _deviation(fresh, run, context)
        context.record(
            run, difference=difference, fresh_trace=float(fresh.mean()), fresh_spread=float(fresh.std()),
            **tuning.source, **performance,
        )  # fmt: skip


def _tuning(runs: Sequence[Parameters], context: RunContext) -> FineTuning:
    setting, systems = runs[0], []
    for run, system in zip(runs, load_systems(setting.system, runs, context), strict=True):
        inputs, labels = system.train
        own = inputs[: run.examples], labels[: run.examples]
        systems.append(replace(system, train=own if run.trained_on == "own" else system.validation))
    return FineTuning(
        systems, METHODS["sgd"](1.0), learning_rate=setting.learning_rate, momentum=setting.momentum,
        batch_size=setting.batch_size, budget=setting.steps,
        batches=[context.generator(run, "batches") for run in runs],
        noise=[context.generator(run, "noise") for run in runs],
    )  # fmt: skip


def _deviation(traces: Tensor, run: Parameters, context: RunContext) -> float:
    """Root mean square, over subsets, of the mean trace of n fresh examples minus the mean of all."""
    source = context.generator(run, "probes")
    chosen = torch.randint(len(traces), (run.subsets, run.examples), generator=source)
    return float((traces[chosen].mean(1) - traces.mean()).square().mean().sqrt())
