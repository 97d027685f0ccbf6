"""What the sweeps on CIFAR-10 set otherwise than those on MNIST; network, training and measures are the same."""

from dataclasses import replace

from common.experiments import DatasetName, Field, RunContext
from common.training import Standardise

from .sweep_setting import PAPER, SweepParameters, Task, prepare

CIFAR = Standardise.by_shares((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
"""By mean and deviation of red, green and blue over the training images of CIFAR-10."""


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


def prepare_colours(run: CifarSweepParameters, context: RunContext) -> Task:
    """As `prepare`, with a random subset of the test images (stream `split`) and colours in place of grey values."""
    task = prepare(run, context)
    test = task.test.subset(run.test_images, seed=context.stream_seed(run, "split"))
    return replace(task, test=test, standardise=CIFAR)
