"""Random directions in the space of weights, scaled filter by filter (Li et al. 2018), and losses along them."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

CHUNK = {"cpu": 128, "cuda": 2048}


def filter_normalised(network: nn.Module, generator: torch.Generator) -> list[torch.Tensor]:
    """A direction, one tensor a parameter: Gaussian, each filter as long as the network's own.

    A filter is what makes one output channel of a convolution or one unit of a linear layer. Biases and the weights
    of normalisations stay as they are (zeros), as in the authors' pictures.

    Li et al. 2018, section 4: d_{i,j} ← d_{i,j} ‖θ_{i,j}‖/‖d_{i,j}‖.
    """
    direction = []
    for parameter in network.parameters():
        drawn = torch.randn(parameter.shape, generator=generator).to(parameter)
        if parameter.dim() < 2:
            direction.append(torch.zeros_like(parameter))
            continue
        along = tuple(range(1, parameter.dim()))
        lengths = parameter.detach().square().sum(along, keepdim=True).sqrt()
        direction.append(drawn * lengths / drawn.square().sum(along, keepdim=True).sqrt().clamp(min=1e-12))
    return direction


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
