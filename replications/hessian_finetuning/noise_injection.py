"""Fig. 3: SGD, SGD with twice the epochs, WP-SGD and NSO: the Hessian and validation results along fine-tuning."""

import math
from collections.abc import Sequence
from typing import Literal

from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Problem, sharpness, trace
from common.hessian.traces import Method

from .shared.fine_tuning import FineTuning, TuningParameters, tuning_of
from .shared.methods import METHODS
from .shared.pointwise import with_linear_layers


class Parameters(TuningParameters):
    """Settings of a run; the grid varies the system and the arm."""

    method: Literal["sgd", "wp_sgd", "nso"] = Field(
        "sgd", description="which gradient is taken", source="Zhang 2024, Fig. 3"
    )
    noise_scale: float = Field(
        0.01,
        gt=0,
        description="σ of the noise on every trained weight",
        source="code of the talk's authors, CIFAR-10 and MRPC",
    )
    lengthening: int = Field(1, ge=1, description="how many times the budget this arm has", source="Zhang 2024, Fig. 3")
    measurements: int = Field(4, ge=1, description="times at which all is measured, evenly spread", source="our choice")
    curvature_examples: int = Field(
        1_000, ge=4, unit="examples", description="the first ones, behind Tr H and λ₁", source="deviation D13"
    )
    curvature_error: float = Field(
        0.02, gt=0, lt=1, description="wanted relative error of both", source="deviation D13"
    )

    @property
    def budget(self) -> int:
        """Gradients of a mini-batch."""
        return self.lengthening * super().budget


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Fine-tune all seeds of one system and arm together and measure along the way."""
    setting = runs[0]
    method = METHODS[setting.method](1.0 if setting.method == "sgd" else setting.noise_scale)
    tuning = tuning_of(runs, context, method)
    if (state := context.restore()) is not None:
        tuning.restore(state)
    due = {round(tuning.total * k / setting.measurements) for k in range(1, setting.measurements + 1)}
    while tuning.step < tuning.total:
        tuning.advance()
        if tuning.step in due:
            _measure(runs, context, tuning)
        context.progress(tuning.step, tuning.total)
        context.checkpoint(tuning.state())
    for member, run in enumerate(runs):
        context.save(run, "weights", dict(tuning.module(member).named_parameters()))


def _measure(runs: Sequence[Parameters], context: RunContext, tuning: FineTuning) -> None:
    rows, first = tuning.performance(), tuning.first_training_losses()
    epoch = tuning.step * tuning.batches.batch_size / tuning.batches.count
    for member, run in enumerate(runs):
        if not math.isfinite(rows[member]["training_loss"]):
            context.diverged(run, f"training loss not finite at step {tuning.step}")
            continue
        context.record(
            run,
            step=tuning.step,
            total_steps=tuning.total,
            epoch=epoch,
            gradients=tuning.rule.gradient_evaluations,
            first_training_loss=first[member],
            **tuning.source,
            **rows[member],
            **_curvature(run, context, tuning, member),
        )


def _curvature(run: Parameters, context: RunContext, tuning: FineTuning, member: int) -> dict[str, float]:
    """Tr H of the loss on training and on test examples, and λ₁ on training examples, over all trained parameters."""
    seed, few, error = context.stream_seed(run, "probes"), run.curvature_examples, run.curvature_error
    own = tuning.member(member)
    model, splits = with_linear_layers(own.model), (own.train, own.test)
    training, test = (Problem(model, nn.CrossEntropyLoss(), (inputs[:few], labels[:few])) for inputs, labels in splits)
    largest = sharpness(training, relative_error=error, products=40, seed=seed).estimate
    row = {"sharpness": largest.value, "sharpness_bound": largest.bound}
    for name, problem in (("trace", training), ("test_trace", test)):
        # with as many columns as classes the exact trace of a convolution costs more than these draws
        method: Method = "output signs" if problem.structure.piecewise_linear else "auto"
        found = trace(problem, relative_error=error, budget=100, seed=seed, method=method)
        row |= {name: found.value, f"{name}_standard_error": found.standard_error}
    return row
