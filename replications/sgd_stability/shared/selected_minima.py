"""Training to the stopping loss, and how sharp and how uneven the minimum is: Figs. 16 and 17."""

from collections.abc import Sequence
from typing import Any

import torch

from common import hessian
from common.experiments import Field, RunContext
from common.hessian import Problem
from common.models import FullyConnected
from common.training import DIVERGED, STOPPED, Batches, Descent

from .image_regression import LECTURE, RegressionParameters, accuracy, first_images, networks, test_images
from .image_span import ImageSpan
from .layered_hessians import LayeredHessians, criterion_ratio, largest_eigenvalue, non_uniformity
from .squared_error import squared_error

ROUND = 500
"""Steps between checkpoints."""


class SelectionParameters(RegressionParameters):
    """How SGD is run, and how exactly its minimum is measured."""

    learning_rate: float = Field(0.5, gt=0, description="η", source=f"{LECTURE}, Fig. 16 by the authors' results")
    batch_size: int = Field(
        1000,
        ge=1,
        unit="images",
        description="B, drawn anew without replacement at each step; all images: GD",
        source=f"{LECTURE}, Fig. 16 by the authors' results, deviation D4",
    )
    longest_time: float = Field(
        4000, gt=0, description="η × steps after which a run ends unstopped", source="our choice"
    )
    check_every: int = Field(50, ge=1, unit="steps", description="between looks at the full loss", source="our choice")
    relative_error: float = Field(0.02, gt=0, description="of a, s and the criterion", source="our choice")


def train_and_measure(runs: Sequence[SelectionParameters], context: RunContext, *, keep: bool = True) -> None:
    """Train all seeds of one setting to the stopping loss; measure the minima.

    Args:
        keep: whether the weights are kept, for experiments that start from them.
    """
    setting = runs[0]
    images, targets = first_images(setting, context)
    initial = networks(setting, [context.generator(run, "init") for run in runs], images.shape[1], context.device)
    span = ImageSpan(initial, images)
    ensemble, data = span.ensemble, (span.inputs, targets)
    orders = None
    if setting.batch_size < setting.training_images:
        generators = [context.generator(run, "batches") for run in runs]
        orders = Batches(setting.training_images, setting.batch_size, generators, order="independent")
    descent = Descent(
        ensemble,
        *data,
        learning_rates=setting.learning_rate,
        batches=orders,
        stopping_loss=setting.stopping_loss,
        check_every=setting.check_every,
    )
    rounds = _restore(descent, context.restore())
    last = max(1, round(setting.longest_time / setting.learning_rate / ROUND))
    while descent.running and rounds < last:
        descent.advance(ROUND)
        rounds += 1
        context.progress(rounds, last, f"loss {float(descent.losses.max()):.1e}")
        context.checkpoint({"descent": descent.state(), "rounds": rounds})
    test = test_images(setting, context)
    for member, run in enumerate(runs):
        if descent.status[member] == DIVERGED:
            at = int(descent.steps[member])
            context.diverged(run, f"loss {float(descent.losses[member]):.3g} at step {at}")
            continue
        if keep:
            context.save(run, "solution", {"weights": span.on_images([member]).weights[0]})
        context.record(
            run,
            step=int(descent.steps[member]),
            loss=float(descent.losses[member]),
            stopped=bool(descent.status[member] == STOPPED),
            test_accuracy=accuracy(span.module(member), test),
            **measured(ensemble.module(member), data, run, context),
        )


def _restore(descent: Descent, state: dict[str, Any] | None) -> int:
    """Rounds done."""
    if state is None:
        return 0
    descent.restore(state["descent"])
    return int(state["rounds"])


def measured(
    model: torch.nn.Module, data: tuple[torch.Tensor, torch.Tensor], run: SelectionParameters, context: RunContext
) -> dict[str, float | bool]:
    """a = λ₁(H), s = √λ₁(Σ_H) and how near the full criterion is to its bound, with the error bounds."""
    error, source = run.relative_error, context.generator(run, "probes")
    if isinstance(model, FullyConnected):
        layered = LayeredHessians(model, *data)
        gram = layered.kernel()
        found = {
            "sharpness": largest_eigenvalue(layered, source, error),
            "non_uniformity": non_uniformity(layered, source, error),
        }
    else:
        problem = Problem(model, squared_error, data)
        gram = hessian.empirical_ntk(problem).gram
        found = {
            "sharpness": hessian.sharpness(problem, relative_error=error, seed=run.seed).estimate,
            "non_uniformity": hessian.non_uniformity(problem, relative_error=error, seed=run.seed),
        }
    found["criterion"] = criterion_ratio(
        gram,
        run.classes,
        learning_rate=run.learning_rate,
        batch_size=run.batch_size,
        generator=source,
        relative_error=error,
    )
    values: dict[str, float | bool] = {name: estimate.value for name, estimate in found.items()}
    values |= {f"{name}_error": estimate.error for name, estimate in found.items()}
    return values | {"converged": all(estimate.converged for estimate in found.values())}
