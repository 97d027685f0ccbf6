"""Fig. 3: SGD, SGD with twice the epochs, WP-SGD and NSO: the Hessian and validation results along fine-tuning."""

import math
from collections.abc import Sequence
from typing import Literal

from common.experiments import Field, RunContext

from .shared.fine_tuning import tuning_of
from .shared.measured_tuning import MeasuredTuningParameters, measure
from .shared.methods import METHODS
from .shared.systems import load_systems


class Parameters(MeasuredTuningParameters):
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
    trial_work = setting.training_work
    work = (len(tried) + 1) * trial_work + setting.measuring_work
    for trial in range(len(losses), len(tried) + 1):
        measured = trial == len(tried)
        scale = tried[trial] if not measured else _best(tried, losses) if tried else setting.noise_scale
        tuning = tuning_of(runs, context, METHODS[setting.method](scale if noisy else 1.0), systems)
        if state["tuning"] is not None:
            tuning.restore(state["tuning"])
        due = setting.times(tuning.total)
        while tuning.step < tuning.total:
            tuning.advance()
            if measured and tuning.step in due:
                measure(runs, context, tuning, scale if noisy else 0.0)
            share = tuning.step / tuning.total
            done = setting.work_done(tuning.step, tuning.total) if measured else trial_work * share
            context.progress(trial * trial_work + done, work)
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
