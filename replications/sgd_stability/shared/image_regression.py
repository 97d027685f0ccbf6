"""Images with one-hot targets and the networks that are trained on them by squared loss, as Wu, Ma and E (2018) do."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models import FullyConnected, SmallVGG
from common.training import FullyConnectedEnsemble, ModuleEnsemble, one_hot

LECTURE = "Wu 2025"
WU2018 = "Wu, Ma and E 2018"
AUTHORS = "the authors' published code"
CHUNK = 200  # images of a pass of the small VGG: on a processor the fastest of 20 to 1,000
Examples = tuple[torch.Tensor, torch.Tensor]


class RegressionParameters(ExperimentParameters):
    """Data, network and end of training."""

    dataset: DatasetName = Field("fashion_mnist", description="images", source=f"{LECTURE}, Table 1")
    classes: int = Field(10, ge=2, description="the classes 0 … classes − 1 are kept", source=AUTHORS)
    training_images: int = Field(1000, ge=2, unit="images", description="the first of the training set", source=AUTHORS)
    test_images: int = Field(10_000, ge=1, unit="images", description="the first of the test set", source="our choice")
    network: Literal["fully_connected", "small_vgg"] = Field(
        "fully_connected", description="fully connected with ReLU, or the small VGG", source=AUTHORS
    )
    width: int = Field(500, ge=1, unit="units", description="of each hidden layer (fully connected)", source=AUTHORS)
    hidden_layers: int = Field(3, ge=1, description="number of them (fully connected)", source=AUTHORS)
    stopping_loss: float = Field(
        1e-4, gt=0, description="mean squared error over images and outputs at which training ends", source=AUTHORS
    )


def first_images(run: RegressionParameters, context: RunContext) -> Examples:
    """The first training images of the kept classes: pixels 0…1 [n, features] and one-hot targets [n, classes]."""
    split = context.data(run.dataset).train
    return _examples(split.inputs, split.targets, run.classes, run.training_images, context.device)


def test_images(run: RegressionParameters, context: RunContext) -> Examples:
    """As `first_images`, of the test set; targets are classes [n]."""
    split = context.data(run.dataset).test
    inputs, targets = _examples(split.inputs, split.targets, run.classes, run.test_images, context.device)
    return inputs, targets.argmax(1)


def _examples(images: torch.Tensor, targets: torch.Tensor, classes: int, count: int, device: torch.device) -> Examples:
    kept = torch.nonzero(targets < classes).flatten()[:count]
    inputs = images[kept].flatten(1).to(device, torch.float32).div_(255)
    return inputs, one_hot(targets[kept], classes).to(device)


def networks(
    run: RegressionParameters, generators: Sequence[torch.Generator], features: int, device: torch.device
) -> FullyConnectedEnsemble | ModuleEnsemble:
    """One initial network a generator."""
    if run.network == "small_vgg":
        rows = torch.stack([_small_vgg_weights(generator) for generator in generators])
        return ModuleEnsemble(make_small_vgg, rows.to(device), chunk=CHUNK)
    sizes = (features, *[run.width] * run.hidden_layers, run.classes)
    return FullyConnectedEnsemble.drawn(sizes, generators, device=device)


def make_small_vgg() -> nn.Module:
    """The small VGG for flattened images [n, 3072]."""
    return nn.Sequential(nn.Unflatten(1, (3, 32, 32)), ChannelsLast(), SmallVGG())


class ChannelsLast(nn.Module):
    """Keeps its images with their channels side by side in memory, which halves the time of small convolutions."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The same values [n, channels, height, width]."""
        return images.contiguous(memory_format=torch.channels_last)


def _small_vgg_weights(generator: torch.Generator) -> torch.Tensor:
    network = SmallVGG()
    network.initialise(generator)
    return nn.utils.parameters_to_vector(network.parameters()).detach()


def accuracy(model: nn.Module | FullyConnected, test: Examples) -> float:
    """Share of test images whose largest output is that of their class."""
    inputs, classes = test
    with torch.inference_mode():
        right = sum(
            int((model(part).argmax(1) == expected).sum())
            for part, expected in zip(inputs.split(1000), classes.split(1000), strict=True)
        )
    return right / len(classes)
