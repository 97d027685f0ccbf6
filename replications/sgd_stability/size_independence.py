"""‖H‖_F of what SGD finds against the size of the network, beside the bound of Theorem 3; GD for contrast."""

from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.experiments.parameters import DatasetName
from common.training import Batches, Descent

from .shared.scalar_networks import (
    alignment_factors,
    draw_images,
    draw_networks,
    errors_and_kernel,
    parameter_count,
    smallest_alignment,
)

SLIDE = 'Wu 2025, "CIFAR-10 experiments"'
OURS = "our choice, D28"


class Parameters(ExperimentParameters):
    """Settings: two-class images, a fully connected network with one output, SGD to a given loss."""

    dataset: DatasetName = Field("cifar10", description="images", source=SLIDE)
    examples: int = Field(100, ge=2, unit="images", description="n", source=OURS)
    width: int = Field(64, ge=1, unit="neurons", description="of each hidden layer", source=OURS)
    depth: int = Field(2, ge=1, description="hidden layers", source=OURS)
    learning_rate: float = Field(0.02, gt=0, description="η for the loss ½ mean e²", source=OURS)
    batch_size: int = Field(4, ge=1, unit="images", description="B; n for gradient descent", source=OURS)
    stopping_loss: float = Field(5e-4, gt=0, description="½ mean e² at which every network stops", source=OURS)
    longest: int = Field(12_000, ge=1, unit="steps", description="limit of a training", source=OURS)
    trajectory: int = Field(300, ge=1, unit="steps", description="of linearised SGD, for μ₀", source=OURS)
    often: int = Field(500, ge=1, unit="steps", description="between checkpoints", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one setting to the same loss, then measure curvature and μ₀."""
    setting = runs[0]
    data = context.data(setting.dataset)
    images = draw_images(data, setting.dataset, setting.examples, [context.generator(run, "split") for run in runs])
    networks = draw_networks(setting.width, setting.depth, images, [context.generator(run, "init") for run in runs])
    orders = [context.generator(run, "batches") for run in runs]
    full = setting.batch_size >= setting.examples
    batches = None if full else Batches(setting.examples, setting.batch_size, orders, order="independent")
    descent = Descent(
        networks, images.inputs, images.targets, learning_rates=setting.learning_rate / 2, batches=batches,
        stopping_loss=2 * setting.stopping_loss, check_every=20,
    )  # fmt: skip
    state = context.restore()
    if state is not None:
        descent.restore(state["descent"])
    taken = 0 if state is None else int(state["taken"])
    while descent.running and taken < setting.longest:
        descent.advance(min(setting.often, setting.longest - taken))
        taken += min(setting.often, setting.longest - taken)
        context.progress(taken, setting.longest)
        context.checkpoint({"descent": descent.state(), "taken": taken})
    _measure(runs, context, descent, *errors_and_kernel(networks, images), images.basis.shape[1])


def _measure(
    runs: Sequence[Parameters],
    context: RunContext,
    descent: Descent,
    errors: torch.Tensor,
    kernel: torch.Tensor,
    features: int,
) -> None:
    setting = runs[0]
    factors = alignment_factors(errors, kernel)
    largest = torch.linalg.eigvalsh(kernel / setting.examples)[:, -1]
    probes = [context.generator(run, "probes") for run in runs]
    size = min(setting.batch_size, setting.examples)
    picks = Batches(setting.examples, size, probes, order="independent")
    everyone = list(range(len(runs)))
    trajectory = torch.stack([picks.next(everyone) for _ in range(setting.trajectory)], 1)
    smallest = smallest_alignment(errors, kernel, setting.learning_rate, trajectory)
    for member, run in enumerate(runs):
        loss = float(errors[member].square().mean() / 2)
        if not torch.isfinite(errors[member]).all():
            context.diverged(run, "the loss left the numbers")
            continue
        context.record(
            run,
            loss=loss,
            steps=int(descent.steps[member]),
            parameters=parameter_count(setting.width, setting.depth, features),
            frobenius=float(factors.frobenius[member]),
            largest=float(largest[member]),
            mu=float(factors.mu[member]),
            mu_smallest=float(smallest[member]),
        )
