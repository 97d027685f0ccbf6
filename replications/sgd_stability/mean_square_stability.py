"""Figure 16: whether SGD would stay at the minima that it selected, by the exact threshold of its second moment."""

from collections.abc import Callable, Sequence

import torch

from common import hessian
from common.experiments import RunContext
from common.experiments.one_by_one import one_by_one
from common.hessian import Problem
from common.training import FullyConnectedEnsemble

from .shared.image_regression import first_images, networks
from .shared.layered_hessians import LayeredHessians, criterion_ratio
from .shared.mean_square import rate_over_threshold
from .shared.selected_minima import SelectionParameters
from .shared.squared_error import squared_error

ROUNDING = 1e-3
"""Share by which a loss may differ from that at which training ended, in coordinates of the span of the images."""


class Parameters(SelectionParameters):
    """Settings of a run; those of the minimum are as in the selection diagram."""


def run(runs: Sequence[SelectionParameters], context: RunContext) -> None:
    """Hold each minimum against the exact threshold, the full criterion and the condition on its sharpness."""
    data = first_images(runs[0], context)
    for run in one_by_one(runs, context):
        kernel, loss = kernel_and_loss(run, data, context)
        criterion, exact = (of_run(ratio, run, kernel, context) for ratio in (criterion_ratio, rate_over_threshold))
        sharpness = 2 / len(kernel) * float(torch.linalg.eigvalsh(kernel)[-1])
        context.record(
            run,
            loss=loss,
            sharpness_ratio=sharpness * run.learning_rate / 2,
            criterion=criterion.value,
            exact=exact.value,
            exact_error=exact.error,
            stopped=loss <= (1 + ROUNDING) * run.stopping_loss,
            converged=criterion.converged and exact.converged,
        )


def of_run(
    ratio: Callable[..., hessian.Estimate], run: SelectionParameters, kernel: torch.Tensor, context: RunContext
) -> hessian.Estimate:
    """`criterion_ratio` or `rate_over_threshold` of K [N·D, N·D] with the settings of a run."""
    return ratio(
        kernel,
        run.classes,
        learning_rate=run.learning_rate,
        batch_size=run.batch_size,
        generator=context.generator(run, "probes"),
        relative_error=run.relative_error,
    )


def kernel_and_loss(
    run: SelectionParameters, data: tuple[torch.Tensor, torch.Tensor], context: RunContext
) -> tuple[torch.Tensor, float]:
    """K [N·D, N·D] (float64) at the minimum of the need `minimum`, and its loss on `data`."""
    inputs, targets = data
    ensemble = networks(run, [context.generator(run, "init")], inputs.shape[1], context.device)
    ensemble.weights.copy_(context.artifact(run, "minimum", "solution")["weights"])
    loss = float(ensemble.losses(inputs, targets)[0])
    if isinstance(ensemble, FullyConnectedEnsemble):
        layered = LayeredHessians(ensemble.module(0).double(), inputs.double(), targets.double())
        return layered.kernel(), loss
    return hessian.empirical_ntk(Problem(ensemble.module(0), squared_error, data)).gram, loss
