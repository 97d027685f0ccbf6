"""Losses on a plane through the weights of a classifier."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

CHUNK = {"cpu": 128, "cuda": 2048}


@torch.inference_mode()
def losses_on_plane(
    network: nn.Module,
    directions: tuple[Sequence[torch.Tensor], Sequence[torch.Tensor]],
    points: Sequence[tuple[float, float]],
    images: torch.Tensor,
    targets: torch.Tensor,
) -> list[float]:
    """Mean cross-entropy (nats) at θ + a δ + b η for each (a, b); the network ends as it was.

    It is put into evaluation mode: normalisations use their running statistics, as in the authors' pictures.
    """
    network.eval()
    size = CHUNK[images.device.type]
    centre = [parameter.clone() for parameter in network.parameters()]
    found = []
    for a, b in points:
        for parameter, start, first, second in zip(network.parameters(), centre, *directions, strict=True):
            parameter.copy_(start + a * first + b * second)
        total = 0.0
        for part, expected in zip(images.split(size), targets.split(size), strict=True):
            total += float(functional.cross_entropy(network(part), expected, reduction="sum"))
        found.append(total / len(targets))
    for parameter, start in zip(network.parameters(), centre, strict=True):
        parameter.copy_(start)
    return found
