"""Claim 2: the trace of the Hessian on n training examples minus that on fresh data, against n.

At weights that were fixed before, at weights that were trained on the n examples, and at the worst weights that ascent
finds in a ball: uniform convergence is a statement on the supremum over the class.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from common.experiments import Field, RunContext
from common.hessian import Problem

from .shared.example_traces import GRADIENTS, example_traces
from .shared.fine_tuning import Member, TuningParameters, tuning_of
from .shared.methods import METHODS
from .shared.systems import Name, Subset, System, load_systems
from .shared.trained_members import trained_members
from .shared.two_layer_trace import two_layer_trace


class Parameters(TuningParameters):
    """Settings of a run; the grid varies n, and on what the weights were trained."""

    system: Name = Field("digits", description="what is trained", source="deviation D6")
    trained_on: Literal["others", "own"] = Field(
        "own",
        description="the n examples themselves, or the validation examples (then W is fixed before they are drawn)",
        source="Zhang 2024, Claim 2; deviation D6",
    )
    ascent: int = Field(
        0,
        ge=0,
        unit="steps",
        description="from weights trained on others, up the difference of the traces, in the ball around the start "
        "that these weights lie on",
        source="deviation D6",
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
    loaded = load_systems(runs[0].system, runs, context)
    tuning = tuning_of(runs, context, METHODS["sgd"](1.0), _systems(runs, loaded))
    own_inputs = {run.seed: _own(run, system).examples()[0] for run, system in zip(runs, loaded, strict=True)}
    fresh_examples = len(tuning.splits["test"][0])
    ascent = 2 * runs[0].ascent * (runs[0].examples + fresh_examples // 2)
    for run, member, performance in trained_members(runs, context, tuning, GRADIENTS * fresh_examples + ascent):
        if run.ascent:
            ascend(member, own_inputs[run.seed], member.test[0][::2], run.ascent)
        fresh = example_traces(Problem(member.model, nn.CrossEntropyLoss(), member.test))
        if run.ascent:
            fresh = fresh[1::2]  # those that the ascent has not seen
            difference = float((two_layer_trace(weights_of(member.model), own_inputs[run.seed]) - fresh.mean()).abs())
        elif run.trained_on == "own":
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


def ascend(member: Member, own: Tensor, fresh: Tensor, steps: int) -> None:
    """Move the member's weights up Tr H on `fresh` minus Tr H on `own`, in place, and stop at the best.

    Each step has a twentieth of the radius ‖W − W⁽⁰⁾‖ at the beginning; what leaves the ball is projected back.
    """
    weights = {name: parameter.detach().clone().requires_grad_() for name, parameter in member.model.named_parameters()}
    radius = _distance(weights, member.start)
    best, highest = {name: tensor.detach().clone() for name, tensor in weights.items()}, -math.inf
    for _ in range(steps + 1):
        difference = two_layer_trace(weights, fresh) - two_layer_trace(weights, own)
        if (now := float(difference.detach())) > highest:
            best, highest = {name: tensor.detach().clone() for name, tensor in weights.items()}, now
        slopes = torch.autograd.grad(difference, list(weights.values()))
        length = math.hypot(*(float(slope.norm()) for slope in slopes))
        with torch.no_grad():
            for tensor, slope in zip(weights.values(), slopes, strict=True):
                tensor += radius / 20 * slope / length
            factor = min(1.0, radius / _distance(weights, member.start))
            for name, tensor in weights.items():
                tensor.copy_(member.start[name] + factor * (tensor - member.start[name]))
    with torch.no_grad():
        for name, parameter in member.model.named_parameters():
            parameter.copy_(best[name])


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters by name, without graph."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _distance(weights: dict[str, Tensor], start: dict[str, Tensor]) -> float:
    return math.hypot(*(float((tensor.detach() - start[name]).norm()) for name, tensor in weights.items()))


def _systems(runs: Sequence[Parameters], systems: Sequence[System]) -> list[System]:
    """Each trains on n of its training examples, or on its validation examples."""
    return [
        replace(system, train=_own(run, system) if run.trained_on == "own" else system.validation)
        for run, system in zip(runs, systems, strict=True)
    ]


def _own(run: Parameters, system: System) -> Subset:
    """The first n training examples."""
    return replace(system.train, rows=system.train.rows[: run.examples])


def _deviation(traces: Tensor, run: Parameters, context: RunContext) -> float:
    """Root mean square, over subsets, of the mean trace of n fresh examples minus the mean of all."""
    source = context.generator(run, "probes")
    chosen = torch.randint(len(traces), (run.subsets, run.examples), generator=source)
    return float((traces[chosen].mean(1) - traces.mean()).square().mean().sqrt())
