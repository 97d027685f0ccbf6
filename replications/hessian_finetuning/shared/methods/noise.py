"""The noise that both methods of noise injection draw."""

from collections.abc import Sequence

import torch

from common.optim import GaussianNoise


def noise_on_all(
    optimiser: torch.optim.Optimizer, scale: float, generators: Sequence[torch.Generator]
) -> GaussianNoise:
    """U ~ N(0, scale² I) on all trained parameters, each member's from its own generator."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    return GaussianNoise(parameters, scale=scale, generators=generators)
