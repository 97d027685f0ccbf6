"""What the sweeps train and measure: settings, images and streams of a run.

Figs. 3 and 4 sweep batch sizes, Figs. 5 and 6 learning rates; the controls share the setting of Fig. 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.training import Standardise

PAPER = "Wang et al. 2018"
MNIST = Standardise(torch.tensor([255 * 0.1307]), torch.tensor([255 * 0.3081]))
"""By mean and deviation of the training images of MNIST, as in the PyTorch example of 2018."""


class SweepParameters(ExperimentParameters):
    """Settings of one training run and of its measurements."""

    dataset: DatasetName = Field("mnist", description="images", source=f"{PAPER}, Figs. 3 and 5")
    training_images: int = Field(60_000, ge=10, unit="images", description="size of the training set", source=PAPER)
    batch_size: int = Field(256, ge=1, unit="images", description="images a step", source=f"{PAPER}, Fig. 5")
    learning_rate: float = Field(0.1, gt=0, description="step length of SGD", source=f"{PAPER}, Fig. 3")
    momentum: float = Field(0.0, ge=0, lt=1, description="of SGD", source="not stated, deviation D3")
    decay_from: float = Field(
        1, ge=0, le=1, description="share of training after which the rate falls linearly to 0", source="deviation D2"
    )
    epochs: int = Field(30, ge=1, unit="epochs", description="length of training", source="not stated, deviation D2")
    evaluation_epochs: tuple[float, ...] = Field(
        (1, 2, 4, 8, 16, 30), unit="epochs", description="when everything is measured", source="our choice"
    )
    crossing_losses: tuple[float, ...] = Field(
        (0.1, 0.05),
        unit="nats",
        description="training losses at whose first passing everything is measured",
        source="our choice",
    )
    gamma: float = Field(0.1, ge=0, description="γ of κ = γ|w| + ε", source=f"{PAPER}, Figs. 3 and 5")
    epsilon: float = Field(0.1, gt=0, description="ε of κ = γ|w| + ε", source=f"{PAPER}, Figs. 3 and 5")
    beta: float = Field(
        0.999, gt=0, lt=1, description="decay of the average of squared gradients", source=f"{PAPER}, section 7"
    )
    curvature_images: int = Field(
        2_000, ge=10, unit="images", description="training images behind the Hessian's diagonal", source="our choice"
    )
    probes: int = Field(2, ge=2, description="random signs an image for the Hessian's diagonal", source="our choice")
    rho_images: int = Field(
        256, ge=10, unit="images", description="training images behind ρ of the Hessian's diagonal", source="our choice"
    )
    rho_batches: int = Field(
        8, ge=1, unit="mini-batches", description="mini-batches behind ρ of squared gradients", source="deviation D6"
    )
    fixed_batch_size: int = Field(
        128,
        ge=1,
        unit="images",
        description="mini-batch of the reading that is equal in all settings",
        source="deviation D6",
    )
    rho_draws: int = Field(3, ge=2, description="perturbations u drawn for ρ", source="our choice, deviation D6")


@dataclass(frozen=True)
class Task:
    """What one seed trains on and is tested on, and its streams of randomness.

    Every measurement starts `probes` anew, so that all settings and times of a seed see the same perturbations.

    Attributes:
        images: uint8 [n, channels, side, side], on the device.
        targets: int64 [n].
        test: the test images, on the device.
        standardise: of images, for the network.
        init, batches, probes: CPU generators.
    """

    images: torch.Tensor
    targets: torch.Tensor
    test: Split
    standardise: Standardise
    init: torch.Generator
    batches: torch.Generator
    probes: torch.Generator


Prepare = Callable[[Any, RunContext], Task]


def prepare(run: SweepParameters, context: RunContext) -> Task:
    """A random subset of the training images (stream `split`) and the streams that all settings of a seed share."""
    data = context.data(run.dataset)
    subset = data.train.subset(run.training_images, seed=context.stream_seed(run, "split")).to(context.device)
    streams = (context.generator(run, name) for name in ("init", "batches", "probes"))
    return Task(subset.inputs, subset.targets, data.test.to(context.device), MNIST, *streams)
