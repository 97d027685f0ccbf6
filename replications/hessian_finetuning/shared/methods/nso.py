"""Noise injection on both sides of the weights."""

from collections.abc import Sequence

import torch

from common.optim import GradientRule, NoiseStability

from .method import Method
from .noise import noise_on_all


class Nso(Method):
    """The mean of the gradients at w + U and w − U, U ~ N(0, σ² I) (Zhang et al. 2024). Strength: σ."""

    gradients_per_step = 2

    def rule(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> GradientRule:
        return NoiseStability(optimiser, noise_on_all(optimiser, self.strength, generators))
