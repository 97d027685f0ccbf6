"""‖H‖_F of what SGD finds against the size of the network, beside the bound of Theorem 3; GD for contrast."""

from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.experiments.parameters import DatasetName
from common.training import Batches, Descent

from .shared.layered_hessians import LayeredHessians
from .shared.linearised_sgd import LinearisedSGD, alignment
from .shared.scalar_networks import draw_images, draw_networks, member_hessians, parameter_count

SLIDE = 'Wu 2025, "CIFAR-10 experiments"'
OURS = "our choice, D28"


class Parameters(ExperimentParameters):
    """Settings: two-class images, a fully connected network with one output, SGD to a given loss."""

    dataset: DatasetName = Field("cifar10", description="images", source=SLIDE)
    examples: int = Field(100, ge=2, unit="images", description="n", source=OURS)
    width: int = Field(64, ge=1, unit="neurons", description="of each hidden layer", source=OURS)
    depth: int = Field(2, ge=1, description="hidden layers", source=OURS)
    learning_rate: float = Field(0.01, gt=0, description="η", source=OURS)
    batch_size: int = Field(4, ge=1, unit="images", description="B; n for gradient descent", source=OURS)
    stopping_loss: float = Field(1e-3, gt=0, description="at which every network stops", source=OURS)
    longest: int = Field(12_000, ge=1, unit="steps", description="limit of a training", source=OURS)
    trajectory: int = Field(300, ge=1, unit="steps", description="of linearised SGD, for μ₀", source=OURS)
    often: int = Field(500, ge=1, unit="steps", description="between checkpoints", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one setting to the same loss, then measure curvature and μ₀."""
    setting = runs[0]
    splits = [context.generator(run, "split") for run in runs]
    images = draw_images(context.data(setting.dataset), setting.dataset, setting.examples, splits)
    networks = draw_networks(setting.width, setting.depth, images, [context.generator(run, "init") for run in runs])
    orders = [context.generator(run, "batches") for run in runs]
    full = setting.batch_size >= setting.examples
    batches = None if full else Batches(setting.examples, setting.batch_size, orders, order="independent")
    descent = Descent(
        networks,
        images.inputs,
        images.targets,
        learning_rates=setting.learning_rate,
        batches=batches,
        stopping_loss=setting.stopping_loss,
        check_every=20,
    )
    state = context.restore()
    if state is not None:
        descent.restore(state["descent"])
    taken = 0 if state is None else int(state["taken"])
    while descent.running and taken < setting.longest:
        descent.advance(min(setting.often, setting.longest - taken))
        taken += min(setting.often, setting.longest - taken)
        context.progress(taken, setting.longest)
        context.checkpoint({"descent": descent.state(), "taken": taken})
    count = parameter_count(setting.width, setting.depth, images.basis.shape[1])
    for run, steps, layered in zip(runs, descent.steps.tolist(), member_hessians(networks, images), strict=True):
        if not torch.isfinite(layered.errors).all():
            context.diverged(run, "the loss was not finite")
        else:
            context.record(run, steps=steps, parameters=count, **_measured(run, context, layered))


def _measured(run: Parameters, context: RunContext, layered: LayeredHessians) -> dict[str, float]:
    """Loss, curvature and μ of one network, and μ₀ along linearised SGD from there."""
    errors, kernel = layered.errors[:, 0], layered.kernel()
    size = min(run.batch_size, run.examples)
    linear = LinearisedSGD(kernel, run.learning_rate, size)
    batches = Batches(run.examples, size, [context.generator(run, "probes")], order="independent")
    trajectory = torch.cat([batches.next([0]) for _ in range(run.trajectory)])
    return {
        "loss": float(errors.square().mean()),
        "frobenius": linear.hessian_norm,
        "largest": 2 * float(torch.linalg.eigvalsh(kernel / run.examples)[-1]),
        "mu": float(alignment(errors[None], kernel)),
        "mu_smallest": linear.smallest_alignment(errors, trajectory),
    }
