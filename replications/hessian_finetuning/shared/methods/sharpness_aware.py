"""Sharpness-aware minimisation."""

from collections.abc import Sequence

import torch

from common.optim import GradientRule, SharpnessAware

from .method import Method


class SharpnessAwareMinimisation(Method):
    """The gradient at w + ρ ∇L/‖∇L‖ (Foret et al. 2021). Strength: ρ. A step costs two gradients."""

    gradients_per_step = 2

    def rule(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> GradientRule:
        return SharpnessAware(optimiser, rho=self.strength, members=True)
