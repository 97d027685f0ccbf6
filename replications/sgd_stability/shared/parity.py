"""Parity of handwritten digits as a regression with one output, and gradient descent's minimum of it."""

import torch

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models import FullyConnected

LECTURE = "Wu 2025"


class ParityParameters(ExperimentParameters):
    """Data and network."""

    dataset: DatasetName = Field("mnist", description="images of digits", source="our choice, deviation D6")
    training_images: int = Field(
        200, ge=2, unit="images", description="the first of the training set", source="our choice, deviation D6"
    )
    test_images: int = Field(10_000, ge=1, unit="images", description="the first of the test set", source="our choice")
    width: int = Field(64, ge=1, unit="units", description="of each hidden layer", source="our choice, deviation D6")
    hidden_layers: int = Field(2, ge=1, description="number of them", source="our choice, deviation D6")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the network: 28 × 28 pixels, hidden layers, one output."""
        return (784, *[self.width] * self.hidden_layers, 1)


def parity(digits: torch.Tensor) -> torch.Tensor:
    """1 for odd digits, −1 for even ones, float32."""
    return (digits % 2 * 2 - 1).float()


def parity_examples(run: ParityParameters, context: RunContext) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels 0…1 [n, 784] and the parity of the digits [n, 1]."""
    split = context.data(run.dataset).train
    return _examples(split.inputs[: run.training_images], split.targets[: run.training_images], context.device)


def parity_accuracy(model: FullyConnected, run: ParityParameters, context: RunContext) -> float:
    """Share of test images whose output has the sign of its target."""
    split = context.data(run.dataset).test
    inputs, targets = _examples(split.inputs[: run.test_images], split.targets[: run.test_images], context.device)
    with torch.inference_mode():
        return float((model(inputs).sign() == targets).double().mean())


def _examples(images: torch.Tensor, digits: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = images.flatten(1).to(device, torch.float32).div_(255)
    return inputs, parity(digits).to(device)[:, None]
