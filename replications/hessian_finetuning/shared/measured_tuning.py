"""Losses, errors, Tr H and λ₁ along a fine-tuning, the same for every arm of every system."""

import math
from collections.abc import Callable, Mapping, Sequence

from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Problem, sharpness, trace
from common.hessian.traces import Method

from .fine_tuning import FineTuning, TuningParameters
from .pointwise import with_linear_layers

Also = Callable[[Problem, int], Mapping[str, float]]
"""Numbers of a problem, by a seed that is the same in all arms."""


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


def tune_and_measure(
    runs: Sequence[MeasuredTuningParameters],
    context: RunContext,
    tuning_with: Callable[[float], FineTuning],
    strengths: Sequence[float],
    noisy: bool,
    also: Also | None = None,
) -> FineTuning:
    """Fine-tune and measure along the way; returns the tuning at its end.

    Where there are several strengths, each is trained with to its end first, and that of the lowest validation loss,
    over seeds, is measured.

    Args:
        tuning_with: a tuning of this strength, before its first step.
        strengths: one at least.
        noisy: whether a strength is the σ of noise that is injected, to be recorded.
        also: what else is recorded of the examples behind Tr H.
    """
    setting, state = runs[0], context.restore() or {"losses": [], "tuning": None}
    losses: list[float] = state["losses"]  # on the validation examples, of the strengths that are done
    tried = strengths if len(strengths) > 1 else ()
    trial_work = setting.training_work
    work = (len(tried) + 1) * trial_work + setting.measuring_work
    for trial in range(len(losses), len(tried) + 1):
        measured = trial == len(tried)
        strength = tried[trial] if not measured else best(tried, losses) if tried else strengths[0]
        tuning = tuning_with(strength)
        if state["tuning"] is not None:
            tuning.restore(state["tuning"])
        due = setting.times(tuning.total)
        while tuning.step < tuning.total:
            tuning.advance()
            if measured and tuning.step in due:
                measure(runs, context, tuning, strength if noisy else 0.0, strength, also)
            share = tuning.step / tuning.total
            done = setting.work_done(tuning.step, tuning.total) if measured else trial_work * share
            context.progress(trial * trial_work + done, work)
            context.checkpoint({"losses": losses, "tuning": tuning.state()})
        if not measured:
            losses.append(float(tuning.evaluate("validation").loss.mean()))
            state = {"losses": losses, "tuning": None}
            context.checkpoint(state)
    return tuning


def best(strengths: Sequence[float], losses: Sequence[float]) -> float:
    """The strength of the lowest validation loss; one whose loss left the numbers is never that.

    Example:
        >>> best([0.1, 0.2, 0.3], [2.0, 1.0, float("nan")])
        0.2
    """
    return min(zip(losses, strengths, strict=True), key=lambda pair: pair[0] if math.isfinite(pair[0]) else math.inf)[1]


def measure(
    runs: Sequence[MeasuredTuningParameters],
    context: RunContext,
    tuning: FineTuning,
    noise_scale: float,
    strength: float,
    also: Also | None = None,
) -> None:
    """Record a row of each member; a member whose training loss left the numbers is told as diverged.

    Args:
        noise_scale: σ of the noise that was injected, 0 where there is none.
        strength: σ or ρ of the arm, whatever it is worth to one that has none.
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
            strength=strength,
            epoch=epoch,
            gradients=tuning.rule.gradient_evaluations,
            first_training_loss=first[member],
            **tuning.source,
            **rows[member],
            **_curvature(run, context, tuning, member, also),
        )


def _curvature(
    run: MeasuredTuningParameters, context: RunContext, tuning: FineTuning, member: int, also: Also | None
) -> dict[str, float]:
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
        row |= {f"{prefix}{name}": value for name, value in (also(problem, seed) if also else {}).items()}
    return row
