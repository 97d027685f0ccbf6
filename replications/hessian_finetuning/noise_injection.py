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
from .shared.systems import load_systems


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
    tried_scales: tuple[float, ...] = Field(
        (),
        description="values of σ that are trained with; that of the lowest validation loss over seeds is measured "
        "(none: noise_scale)",
        source="deviation D12",
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
    """Fine-tune all seeds of one system and arm together and measure along the way.

    Where several σ are tried, each is trained with to its end first.
    """
    setting = runs[0]
    systems = load_systems(setting.system, runs, context)
    noisy = setting.method != "sgd"
    tried = setting.tried_scales if noisy else ()
    state = context.restore() or {"losses": [], "tuning": None}
    losses: list[float] = state["losses"]  # on the validation examples, of the σ that are done
    for trial in range(len(losses), len(tried) + 1):
        measured = trial == len(tried)
        scale = tried[trial] if not measured else _best(tried, losses) if tried else setting.noise_scale
        tuning = tuning_of(runs, context, METHODS[setting.method](scale if noisy else 1.0), systems)
        if state["tuning"] is not None:
            tuning.restore(state["tuning"])
        due = {round(tuning.total * k / setting.measurements) for k in range(1, setting.measurements + 1)}
        while tuning.step < tuning.total:
            tuning.advance()
            if measured and tuning.step in due:
                _measure(runs, context, tuning, scale if noisy else 0.0)
            context.progress(trial + tuning.step / tuning.total, len(tried) + 1)
            context.checkpoint({"losses": losses, "tuning": tuning.state()})
        if measured:
            for member, run in enumerate(runs):
                context.save(run, "weights", dict(tuning.module(member).named_parameters()))
        else:
            losses.append(float(tuning.evaluate("validation").loss.mean()))
            state = {"losses": losses, "tuning": None}
            context.checkpoint(state)


def _best(scales: Sequence[float], losses: Sequence[float]) -> float:
    """The σ of the lowest validation loss; one whose loss left the numbers is never that.

    Example:
        >>> _best([0.1, 0.2, 0.3], [2.0, 1.0, float("nan")])
        0.2
    """
    return min(zip(losses, scales, strict=True), key=lambda pair: pair[0] if math.isfinite(pair[0]) else math.inf)[1]


def _measure(runs: Sequence[Parameters], context: RunContext, tuning: FineTuning, scale: float) -> None:
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
            sigma=scale,
            epoch=epoch,
            gradients=tuning.rule.gradient_evaluations,
            first_training_loss=first[member],
            **tuning.source,
            **rows[member],
            **_curvature(run, context, tuning, member),
        )


def _curvature(run: Parameters, context: RunContext, tuning: FineTuning, member: int) -> dict[str, float]:
    """Tr H and λ₁ of the loss on training and on test examples, over all trained parameters."""
    seed, few, error = context.stream_seed(run, "probes"), run.curvature_examples, run.curvature_error
    own = tuning.member(member)
    model, splits = with_linear_layers(own.model), (own.train, own.test)
    training, test = (Problem(model, nn.CrossEntropyLoss(), (inputs[:few], labels[:few])) for inputs, labels in splits)
    row: dict[str, float] = {}
    for prefix, problem in (("", training), ("test_", test)):
        largest = sharpness(problem, relative_error=error, products=40, seed=seed).estimate
        row |= {f"{prefix}sharpness": largest.value, f"{prefix}sharpness_bound": largest.bound}
        # with as many columns as classes the exact trace of a convolution costs more than these draws
        method: Method = "output signs" if problem.structure.piecewise_linear else "auto"
        found = trace(problem, relative_error=error, budget=100, seed=seed, method=method)
        row |= {f"{prefix}trace": found.value, f"{prefix}trace_standard_error": found.standard_error}
    return row
