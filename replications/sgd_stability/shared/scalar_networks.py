"""Fully connected networks with one output on two-class images: data, members, and their Hessians.

All is in coordinates of the span of the training images (`common.training.input_span`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from common.datasets import Dataset
from common.training import FullyConnectedEnsemble
from common.training.input_span import join_first_layer, span, split_first_layer

from .layered_hessians import LayeredHessians
from .parity import parity


class Images(NamedTuple):
    """Coordinates [k, n, r] of the training images, targets ±1 [k, n, 1], and the basis [k, D, r] of their span."""

    inputs: torch.Tensor
    targets: torch.Tensor
    basis: torch.Tensor


def two_class_targets(labels: torch.Tensor, name: str) -> torch.Tensor:
    """±1 [n]: parity on MNIST and its like, first or second class of CIFAR-10; 0 marks images that are not used."""
    return torch.where(labels < 2, 1.0 - 2.0 * labels, 0.0) if name == "cifar10" else parity(labels)


def draw_images(data: Dataset, name: str, examples: int, generators: Sequence[torch.Generator]) -> Images:
    """`examples` training images a generator, bytes/255, in coordinates of their span; float32.

    Raises:
        ValueError: more images are asked for than there are.
    """
    targets = two_class_targets(data.train.targets.long(), name)
    usable = torch.nonzero(targets).flatten()
    if examples > len(usable):
        raise ValueError(f"{name} has {len(usable)} images of the two classes, {examples} are asked for.")
    parts = []
    for generator in generators:
        chosen = usable[torch.randperm(len(usable), generator=generator)[:examples]]
        basis, coordinates = span(data.train.inputs[chosen].flatten(1).double() / 255)
        parts.append((coordinates.float(), targets[chosen, None].float(), basis.float()))
    return Images(*(torch.stack(part) for part in zip(*parts, strict=True)))


def draw_networks(
    width: int, depth: int, images: Images, generators: Sequence[torch.Generator]
) -> FullyConnectedEnsemble:
    """One network a generator, PyTorch's default initial weights, its first layer projected onto the images' span."""
    features, rank = images.basis.shape[1:]
    hidden = (width,) * depth
    full = FullyConnectedEnsemble.drawn((features, *hidden, 1), generators)
    first, others = split_first_layer(full.weights, features, width)
    return FullyConnectedEnsemble((rank, *hidden, 1), join_first_layer(first @ images.basis, others))


def parameter_count(width: int, depth: int, features: int) -> int:
    """Parameters of the network before projection."""
    return (features + 1) * width + (depth - 1) * (width + 1) * width + width + 1


def member_hessians(networks: FullyConnectedEnsemble, images: Images) -> list[LayeredHessians]:
    """Errors, kernel and Hessians of each member on its own images, float64."""
    return [
        LayeredHessians(networks.module(member).double(), inputs.double(), targets.double())
        for member, (inputs, targets) in enumerate(zip(images.inputs, images.targets, strict=True))
    ]
