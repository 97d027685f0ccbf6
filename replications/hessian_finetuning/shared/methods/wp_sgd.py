"""Noise injection on one side of the weights."""

from collections.abc import Sequence

import torch

from common.optim import GradientRule, WeightPerturbation

from .method import Method
from .noise import noise_on_all


class WpSgd(Method):
    """The mean of the gradients at w + U₁ and w + U₂, U ~ N(0, σ² I) (Zhang et al. 2024). Strength: σ."""

    gradients_per_step = 2

    def rule(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> GradientRule:
        return WeightPerturbation(optimiser, noise_on_all(optimiser, self.strength, generators), draws=2)
