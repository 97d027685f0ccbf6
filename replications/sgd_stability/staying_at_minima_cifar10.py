"""Figure 16 on its second data set: whether SGD does stay at the minima that it selected, when it goes on from them."""

from collections.abc import Sequence

import torch

from common.experiments import Field, RunContext
from common.training import DIVERGED, Batches, Descent

from .mean_square_stability import ROUNDING, kernel_and_loss, of_run
from .shared.image_regression import first_images, networks
from .shared.mean_square import rate_over_threshold
from .shared.selected_minima import SelectionParameters


class Parameters(SelectionParameters):
    """Settings of a run; those of the minimum are as in the selection diagram."""

    trajectories: int = Field(
        10, ge=1, description="of one minimum, each with batches of its own", source="our choice, before any run"
    )
    steps: int = Field(
        5000, ge=1, unit="steps", description="length of a trajectory", source="our choice, before any run"
    )
    left_above: float = Field(
        10, gt=1, description="factor of `stopping_loss` beyond which SGD has left", source="our choice, before any run"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """The exact threshold of each minimum, then trajectories from all of them with the same SGD."""
    setting, data = runs[0], first_images(runs[0], context)
    owners = [run for run in runs for _ in range(setting.trajectories)]
    ensemble = networks(setting, [context.generator(run, "init") for run in owners], data[0].shape[1], context.device)
    minima = torch.stack([context.artifact(run, "minimum", "solution")["weights"] for run in runs])
    ensemble.weights.copy_(minima.repeat_interleave(setting.trajectories, 0))
    orders = [context.generator(run, f"batches{number}") for run in runs for number in range(setting.trajectories)]
    descent = Descent(
        ensemble,
        *data,
        learning_rates=setting.learning_rate,
        batches=Batches(setting.training_images, setting.batch_size, orders, order="independent"),
        check_every=setting.check_every,
        diverged_above=setting.left_above * setting.stopping_loss,
    )
    taken, state = 0, context.restore()
    if state is None:
        for run in runs:
            _threshold(run, data, context)
        descent.losses = ensemble.losses(*data).double().cpu()
        _record(runs, context, descent, taken)
    else:
        descent.restore(state["descent"])
        taken = int(state["taken"])
    while taken < setting.steps:
        context.checkpoint({"descent": descent.state(), "taken": taken})
        leg = min(setting.check_every, setting.steps - taken)
        descent.advance(leg)
        taken += leg
        _record(runs, context, descent, taken)
        context.progress(taken, setting.steps)


def _threshold(run: Parameters, data: tuple[torch.Tensor, torch.Tensor], context: RunContext) -> None:
    """Records whether the linearised model says that SGD stays, as `mean_square_stability` does."""
    kernel, loss = kernel_and_loss(run, data, context)
    exact = of_run(rate_over_threshold, run, kernel, context)
    context.record(
        run,
        kind="minimum",
        exact=exact.value,
        exact_error=exact.error,
        stopped=loss <= (1 + ROUNDING) * run.stopping_loss,
        converged=exact.converged,
    )


def _record(runs: Sequence[Parameters], context: RunContext, descent: Descent, step: int) -> None:
    """Losses of the trajectories of each minimum; one that has left keeps the loss at which it had."""
    count = runs[0].trajectories
    losses, left = descent.losses.view(-1, count), (descent.status == DIVERGED).view(-1, count)
    for member, run in enumerate(runs):
        context.record(
            run,
            kind="losses",
            step=step,
            left=int(left[member].sum()),
            **{f"path{number}": float(loss) if loss.isfinite() else None for number, loss in enumerate(losses[member])},
        )
