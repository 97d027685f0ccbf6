"""Losses, errors, Tr H and λ₁ along a fine-tuning, the same for every arm of every system."""

import math
from collections.abc import Sequence

from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Problem, sharpness, trace
from common.hessian.traces import Method

from .fine_tuning import FineTuning, TuningParameters
from .pointwise import with_linear_layers


class MeasuredTuningParameters(TuningParameters):
    """How long an arm may go on, and what is measured on the way."""

    lengthening: int = Field(1, ge=1, description="how many times the budget this arm has", source="Zhang 2024, Fig. 3")
    measurements: int = Field(4, ge=1, description="times at which all is measured, evenly spread", source="our choice")
    curvature_examples: int = Field(
        1_000, ge=4, unit="examples", description="the first ones, behind Tr H and λ₁", source="deviation D13"
    )
    curvature_error: float = Field(
        0.02, gt=0, lt=1, description="wanted relative error of both", source="deviation D13"
    )
    trace_budget: int = Field(100, ge=2, unit="gradients", description="what Tr H may cost", source="our choice")
    sharpness_products: int = Field(
        40, ge=2, unit="Hessian products", description="what λ₁ may cost", source="our choice"
    )

    @property
    def budget(self) -> int:
        """Gradients of a mini-batch."""
        return self.lengthening * super().budget

    @property
    def training_work(self) -> int:
        """Gradients of an example that the fine-tuning takes."""
        return self.budget * self.batch_size

    @property
    def measuring_work(self) -> int:
        """Gradients of an example that all measurements may take, a Hessian product being two."""
        once = 2 * self.curvature_examples * (self.trace_budget + 2 * self.sharpness_products)
        return self.measurements * once

    def times(self, total: int) -> set[int]:
        """The steps, of so many, after which all is measured."""
        return {round(total * k / self.measurements) for k in range(1, self.measurements + 1)}

    def work_done(self, step: int, total: int) -> float:
        """Gradients of an example that have been taken after a step, of so many, and what is measured then."""
        measured = sum(time <= step for time in self.times(total)) / self.measurements
        return self.training_work * step / total + self.measuring_work * measured


def measure(
    runs: Sequence[MeasuredTuningParameters], context: RunContext, tuning: FineTuning, noise_scale: float
) -> None:
    """Record a row of each member; a member whose training loss left the numbers is told as diverged.

    Args:
        noise_scale: σ of the noise that was injected, 0 where there is none.
    """
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
            sigma=noise_scale,
            epoch=epoch,
            gradients=tuning.rule.gradient_evaluations,
            first_training_loss=first[member],
            **tuning.source,
            **rows[member],
            **_curvature(run, context, tuning, member),
        )


def _curvature(run: MeasuredTuningParameters, context: RunContext, tuning: FineTuning, member: int) -> dict[str, float]:
    """Tr H and λ₁ of the loss on training and on test examples, over all trained parameters."""
    seed, few, error = context.stream_seed(run, "probes"), run.curvature_examples, run.curvature_error
    own = tuning.member(member)
    model, splits = with_linear_layers(own.model), (own.train, own.test)
    training, test = (Problem(model, nn.CrossEntropyLoss(), (inputs[:few], labels[:few])) for inputs, labels in splits)
    row: dict[str, float] = {}
    for prefix, problem in (("", training), ("test_", test)):
        largest = sharpness(problem, relative_error=error, products=run.sharpness_products, seed=seed).estimate
        row |= {f"{prefix}sharpness": largest.value, f"{prefix}sharpness_bound": largest.bound}
        # with as many columns as classes the exact trace of a convolution costs more than these draws
        method: Method = "output signs" if problem.structure.piecewise_linear else "auto"
        found = trace(problem, relative_error=error, budget=run.trace_budget, seed=seed, method=method)
        row |= {f"{prefix}trace": found.value, f"{prefix}trace_standard_error": found.standard_error}
    return row
