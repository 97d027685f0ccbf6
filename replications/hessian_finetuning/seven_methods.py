"""Fig. 2: seven methods of fine-tuning at four strengths, the Hessian measure of each against its gap."""

import math
from collections.abc import Sequence
from typing import Literal

from common.experiments import Field, RunContext

from .shared.fine_tuning import FineTuning, TuningParameters, tuning_of
from .shared.layer_measures import layer_measures, measuring_work
from .shared.methods import METHODS
from .shared.pointwise import with_linear_layers
from .shared.systems import load_systems


class Parameters(TuningParameters):
    """Settings of a run; the grid varies the system, the method and its strength."""

    method: Literal["sgd", "early_stopping", "weight_decay", "label_smoothing", "mixup", "distance", "sam"] = Field(
        "sgd", description="how it is fine-tuned", source="Zhang 2024, Fig. 2 (seven fine-tuning methods)"
    )
    strengths: tuple[float, float, float, float] = Field(
        (2.0, 1.0, 0.5, 0.25),
        description="the four strengths of the method, the weakest first",
        source="not stated, deviation D11",
    )
    measured_examples: int = Field(
        0,
        ge=0,
        unit="examples",
        description="the first training and the first test examples behind the measure (0: all)",
        source="our choice",
    )
    strength: int = Field(2, ge=1, le=4, description="which of them, counted from 1", source="grid")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Fine-tune a system by each method at each strength, all seeds of a setting together, then measure each.

    The weights are not kept: those of all runs are gigabytes, against a minute of training.
    """
    settings: dict[tuple[str, int], list[Parameters]] = {}
    for run in runs:
        settings.setdefault((run.method, run.strength), []).append(run)
    seeds = {run.seed: run for run in runs}
    systems = dict(zip(seeds, load_systems(runs[0].system, list(seeds.values()), context), strict=True))
    for system in systems.values():
        with_linear_layers(system.model)  # a step of ten members of MobileNetV2's last stages: 0.11 s, not 0.51
    state = context.restore() or {"done": 0, "tuning": None, "before": []}
    first: list[float] = []  # all settings start at the same weights
    for done, members in list(enumerate(settings.values()))[state["done"] :]:
        method = METHODS[members[0].method](_value(members[0]))
        tuning = tuning_of(members, context, method, [systems[run.seed] for run in members])
        if state["tuning"] is not None:
            tuning.restore(state["tuning"])
        training = tuning.total * method.gradients_per_step * members[0].batch_size
        share = training / (training + measuring_work(tuning, members[0].measured_examples))
        while tuning.step < tuning.total:
            if tuning.step == settling(tuning.total):
                state["before"] = tuning.evaluate("train").loss.tolist()
            tuning.advance()
            context.progress(done + share * tuning.step / tuning.total, len(settings))
            context.checkpoint({"done": done, "tuning": tuning.state(), "before": state["before"]})
        first = first or tuning.first_training_losses()
        _measure(members, context, tuning, first, state["before"])
        state = {"done": done + 1, "tuning": None, "before": []}
        context.checkpoint(state)


def settling(total: int) -> int:
    """The step at which the last sixth begins: what the training loss still does in it says whether it has settled.

    Example:
        >>> settling(100)
        83
    """
    return 5 * total // 6


def _measure(
    members: Sequence[Parameters],
    context: RunContext,
    tuning: FineTuning,
    first: Sequence[float],
    before: Sequence[float],
) -> None:
    """`first` and `before` are training losses, at the start and when the last sixth of the steps began."""
    rows = tuning.performance()
    for member, run in enumerate(members):
        if not math.isfinite(rows[member]["training_loss"]):
            context.diverged(run, f"training loss not finite after {tuning.total} steps")
            continue
        context.record(
            run,
            value=_value(run),
            classes=tuning.classes,
            gradients=tuning.rule.gradient_evaluations,
            first_training_loss=first[member],
            settling_training_loss=before[member],
            **tuning.source,
            **rows[member],
            **layer_measures(tuning.member(member), run.measured_examples),
        )


def _value(run: Parameters) -> float:
    return run.strengths[run.strength - 1]
