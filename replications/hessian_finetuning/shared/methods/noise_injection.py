"""Noise injection: gradients at weights that are moved at random."""

from collections.abc import Sequence

import torch

from common.optim import GaussianNoise, GradientRule, NoiseStability, WeightPerturbation

from .method import Method


class Nso(Method):
    """The mean of the gradients at w + U and w − U, U ~ N(0, σ² I) (Zhang et al. 2024). Strength: σ."""

    gradients_per_step = 2

    def rule(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> GradientRule:
        return NoiseStability(optimiser, _noise_on_all(optimiser, self.strength, generators))


class WpSgd(Method):
    """The mean of the gradients at w + U₁ and w + U₂, U ~ N(0, σ² I) (Zhang et al. 2024). Strength: σ."""

    gradients_per_step = 2

    def rule(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> GradientRule:
        return WeightPerturbation(optimiser, _noise_on_all(optimiser, self.strength, generators), draws=2)


def _noise_on_all(
    optimiser: torch.optim.Optimizer, scale: float, generators: Sequence[torch.Generator]
) -> GaussianNoise:
    """U ~ N(0, scale² I) on all trained parameters, each member's from its own generator."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    return GaussianNoise(parameters, scale=scale, generators=generators)
