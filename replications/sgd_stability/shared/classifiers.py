"""The classifiers of the batch-size comparison: several trained together, or one to be measured."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from common.datasets import Split
from common.models import FullyConnected, ShallowCifar, initialise_uniform
from common.training import Ensemble, FullyConnectedEnsemble, Standardise

Architecture = Literal["fully_connected", "convolutional"]
CLASSES = 10
CHUNK = 500


def untrained(architecture: Architecture, inputs: int, hidden: Sequence[int]) -> nn.Module:
    """A network with ten outputs, without batch normalisation and dropout; its weights are still to be set.

    Args:
        architecture: fully connected with layers of `hidden` units, or the shallow convolutional network of 32 × 32
            colour images (which takes no `hidden`).
        inputs: numbers that describe an image, all channels.
    """
    return ShallowCifar() if architecture == "convolutional" else FullyConnected((inputs, *hidden, CLASSES))


class Members:
    """Networks that are trained together on cross-entropy, one a generator, with PyTorch's default initialisation.

    Attributes:
        weights, gradients: [members, P]; the order of coordinates is the ensemble's own.
    """

    def __init__(
        self, network: nn.Module, generators: Sequence[torch.Generator], device: torch.device | str = "cpu"
    ) -> None:
        self._batched: FullyConnectedEnsemble | None = None
        if isinstance(network, FullyConnected):
            self._batched = FullyConnectedEnsemble.drawn(network.sizes, generators, loss="cross_entropy", device=device)
            self.weights, self.gradients = self._batched.weights, self._batched.gradients
            return
        members = [deepcopy(network) for _ in generators]
        for member, generator in zip(members, generators, strict=True):
            initialise_uniform(member, generator)
        self._one_by_one = Ensemble([member.to(device) for member in members])
        self.weights, self.gradients = self._one_by_one.weights, self._one_by_one.gradients

    def losses_and_gradients(self, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy [members] on images [members, n, …] and targets [members, n]; fills `gradients`."""
        if self._batched is not None:
            return self._batched.losses_and_gradients(images.flatten(2), targets)
        return self._one_by_one.losses_and_gradients(list(zip(images, targets, strict=True)))

    def module(self, member: int) -> nn.Module:
        """An ordinary network with a copy of the member's parameters."""
        if self._batched is not None:
            return self._batched.module(member)
        return deepcopy(self._one_by_one.members[member])


class Performance(NamedTuple):
    """Mean cross-entropy (nats) and share of wrong predictions."""

    loss: float
    error: float


@torch.inference_mode()
def loss_and_error(network: nn.Module, split: Split, standardise: Standardise) -> Performance:
    """Mean cross-entropy (nats) and share of wrong predictions over a split of images."""
    loss = wrong = 0.0
    for images, targets in zip(split.inputs.split(CHUNK), split.targets.split(CHUNK), strict=True):
        logits = network(standardise(images))
        loss += float(functional.cross_entropy(logits, targets, reduction="sum"))
        wrong += float((logits.argmax(1) != targets).sum())
    return Performance(loss / len(split), wrong / len(split))


def set_flat(network: nn.Module, weights: torch.Tensor) -> None:
    """Give `network` the entries of `weights` [P], in the order of its parameters."""
    start = 0
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(weights[start : start + parameter.numel()].view_as(parameter))
            start += parameter.numel()


def flat(network: nn.Module) -> torch.Tensor:
    """All parameters in one row [P], whatever the order in memory of each."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])


@torch.inference_mode()
def example_losses(network: nn.Module, split: Split, standardise: Standardise) -> torch.Tensor:
    """Cross-entropy of each image [n], float64."""
    parts = [
        functional.cross_entropy(network(standardise(images)).double(), targets, reduction="none")
        for images, targets in zip(split.inputs.split(CHUNK), split.targets.split(CHUNK), strict=True)
    ]
    return torch.cat(parts)


def error_probability(network: nn.Module, split: Split, standardise: Standardise) -> float:
    """Mean of 1 − p_y over a split: the probability of a wrong label if labels are drawn from the outputs."""
    return float(-torch.expm1(-example_losses(network, split, standardise)).mean())


def hardest_first(network: nn.Module, split: Split, standardise: Standardise) -> Split:
    """The same images, largest losses first: by the first ones a loss is recognised as a mean."""
    order = example_losses(network, split, standardise).argsort(descending=True, stable=True)
    return Split(split.name, split.inputs[order], split.targets[order])
