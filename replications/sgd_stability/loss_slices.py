"""Figure 5: slices through the loss of residual networks with and without skip connections."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.hessian.slices import drawn_by_filter
from common.models import ResidualCifar

from .shared.classifiers import CLASSES
from .shared.plane_losses import losses_on_plane

LI = "Li et al. 2018"
OURS = "deviation D44"


class Parameters(ExperimentParameters):
    """Settings of a network, its training, and the slice."""

    dataset: DatasetName = Field("cifar10", description="images", source=f"{LI}, section 4")
    training_images: int = Field(50_000, ge=20, unit="images", description="size of the training set", source=LI)
    side: int = Field(32, ge=8, unit="pixels", description="side of the pictures; below 32 by averaging", source=OURS)
    depth: int = Field(56, ge=8, description="layers, 6n + 2", source=f"{LI}, Fig. 1")
    width: int = Field(16, ge=1, description="channels of the first stage", source=LI)
    skip: bool = Field(True, description="whether the network has skip connections", source=f"{LI}, Fig. 1")
    batch_size: int = Field(128, ge=1, unit="images", description="images a step", source=LI)
    learning_rate: float = Field(
        0.1, gt=0, description="of SGD, a tenth after 1/2 and a hundredth after 3/4", source=LI
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD", source=LI)
    weight_decay: float = Field(5e-4, ge=0, description="of SGD", source=LI)
    epochs: int = Field(300, ge=1, unit="epochs", description="length of training", source=LI)
    reach: float = Field(1.0, gt=0, description="the slice spans ± that many filter lengths", source=f"{LI}, Fig. 1")
    points: int = Field(51, ge=5, description="points of the slice in each direction (odd)", source=LI)
    slice_images: int = Field(10_000, ge=10, unit="images", description="training images behind a loss", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train each network with SGD, then evaluate its training loss on the plane of two random directions."""
    (run,) = runs
    inputs, targets = _images(run, context)
    network = ResidualCifar(run.depth, width=run.width, skip=run.skip, classes=CLASSES)
    network.initialise(context.generator(run, "init"))
    network = network.to(context.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(
        network.parameters(), lr=run.learning_rate, momentum=run.momentum, weight_decay=run.weight_decay
    )
    order = context.generator(run, "batches")
    start = _restore(context.restore(), network, optimiser, order)
    for epoch in range(start, run.epochs):
        _set_rate(optimiser, run, epoch / run.epochs)
        batches = torch.randperm(len(targets), generator=order).to(inputs.device).split(run.batch_size)
        loss, error = _one_epoch(network, optimiser, inputs, targets, batches)
        context.record(run, kind="epoch", epoch=epoch + 1, loss=loss, error=error)
        context.progress(epoch + 1, run.epochs)
        context.checkpoint(
            {
                "epoch": epoch + 1,
                "network": dict(network.state_dict()),
                "optimiser": optimiser.state_dict(),
                "order": order.get_state(),
            }
        )
    _slice(run, context, network, inputs, targets)


def _images(run: Parameters, context: RunContext) -> tuple[torch.Tensor, torch.Tensor]:
    """Standardised training images [n, 3, side, side] and their classes."""
    data = context.data(run.dataset)
    split: Split = data.train.subset(run.training_images, seed=context.stream_seed(run, "split"))
    images = split.standardised(*data.train.channel_statistics())
    if run.side < images.shape[-1]:
        images = functional.adaptive_avg_pool2d(images, run.side)
    return images.to(context.device, memory_format=torch.channels_last), split.targets.to(context.device)


def _restore(state: Any, network: torch.nn.Module, optimiser: torch.optim.SGD, order: torch.Generator) -> int:
    if state is None:
        return 0
    network.load_state_dict(state["network"])
    optimiser.load_state_dict(state["optimiser"])
    order.set_state(state["order"])
    return int(state["epoch"])


def _set_rate(optimiser: torch.optim.SGD, run: Parameters, done: float) -> None:
    """The learning rate after a share `done` of training."""
    rate = run.learning_rate * (1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01)
    for group in optimiser.param_groups:
        group["lr"] = rate


def _one_epoch(
    network: ResidualCifar,
    optimiser: torch.optim.SGD,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    batches: Sequence[torch.Tensor],
) -> tuple[float, float]:
    """Mean loss and share of errors over the epoch's batches of indices, as they were trained on."""
    network.train()
    loss = wrong = 0.0
    for chosen in batches:
        optimiser.zero_grad()
        logits = network(inputs[chosen])
        batch = functional.cross_entropy(logits, targets[chosen])
        torch.autograd.backward(batch)
        optimiser.step()
        loss += float(batch.detach()) * len(chosen)
        wrong += float((logits.detach().argmax(1) != targets[chosen]).sum())
    return loss / len(targets), wrong / len(targets)


def _slice(
    run: Parameters, context: RunContext, network: ResidualCifar, inputs: torch.Tensor, targets: torch.Tensor
) -> None:
    source = context.generator(run, "probes")
    weights = list(network.parameters())
    directions = drawn_by_filter(weights, source), drawn_by_filter(weights, source)
    line = torch.linspace(-run.reach, run.reach, run.points, dtype=torch.float64).tolist()
    points = [(a, b) for a in line for b in line]
    part = slice(0, run.slice_images)
    losses = losses_on_plane(network, directions, points, inputs[part], targets[part])
    for (a, b), loss in zip(points, losses, strict=True):
        context.record(run, kind="slice", a=a, b=b, loss=loss)
