"""The sweeps on CIFAR-10: the same network with what colour images need, trained and measured as on MNIST."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from common.experiments import DatasetName, Field, RunContext

from .sweep import PAPER, SweepParameters, Task, prepare, train_and_measure

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of red, green and blue over the training images of CIFAR-10, as shares of 255."""


class CifarSweepParameters(SweepParameters):
    """Settings of one training run and of its measurements."""

    dataset: DatasetName = Field("cifar10", description="images", source=f"{PAPER}, Figs. 4 and 6")
    training_images: int = Field(50_000, ge=10, unit="images", description="size of the training set", source=PAPER)
    test_images: int = Field(10_000, ge=10, unit="images", description="size of the test set", source=PAPER)
    batch_size: int = Field(256, ge=1, unit="images", description="images a step", source=f"{PAPER}, Fig. 6")
    learning_rate: float = Field(0.01, gt=0, description="step length of SGD", source=f"{PAPER}, Fig. 4")
    momentum: float = Field(0.0, ge=0, lt=1, description="of SGD; both 0 and 0.5 are run", source="deviation D18")
    crossing_losses: tuple[float, ...] = Field(
        (1.2, 1.0),
        unit="nats",
        description="training losses at whose first passing everything is measured",
        source="our choice",
    )


def train_and_measure_on_cifar(runs: Sequence[CifarSweepParameters], context: RunContext) -> None:
    """Train all seeds of one setting together; record every measure at the evaluation epochs and at crossings."""
    train_and_measure(runs, context, _prepare, standardise)


def standardise(images: torch.Tensor) -> torch.Tensor:
    """Colours 0…255 [n, 3, 32, 32] as float32 of mean 0 and deviation 1 over CIFAR-10."""
    mean, deviation = (
        255 * torch.tensor(values, device=images.device).view(1, 3, 1, 1) for values in (MEAN, DEVIATION)
    )
    return images.float().sub_(mean).div_(deviation)


def _prepare(run: CifarSweepParameters, context: RunContext) -> Task:
    task = prepare(run, context)
    return replace(task, test=task.test.subset(run.test_images, seed=context.stream_seed(run, "split")))
