"""What a method of fine-tuning may change: length, learning rate, mini-batch, gradient, weights after a step."""

from collections.abc import Sequence
from typing import Any

import torch

from common.optim import GradientRule, PlainGradient

Weights = dict[str, torch.Tensor]
"""Parameters of all members by name, [members, …]."""

Batch = tuple[torch.Tensor, torch.Tensor]
"""Inputs [members, B, …] and target probabilities [members, B, classes]."""


class Method:
    """Descent on the cross-entropy from the pretrained weights; each method overrides what it changes.

    Several networks (members, one a seed) are fine-tuned at once: the first axis of every tensor runs over them.

    Attributes:
        strength: the one number that the method is set by; what it means, the class says.
        gradients_per_step: cost of a step. A budget is counted in gradients, so that it is equal for all methods.
        watches_validation: whether `observe` is called at evaluations on the validation split.
    """

    gradients_per_step = 1
    watches_validation = False

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def steps(self, budget: int) -> int:
        """How many steps are taken of a budget in gradients."""
        return budget // self.gradients_per_step

    def learning_rate(self, usual: float) -> float:
        """The learning rate, where `usual` is that of the system."""
        return usual

    def weight_decay(self) -> float:
        """λ of the optimiser, whose steps shrink the parameters by learning rate · λ."""
        return 0.0

    def batch(self, inputs: torch.Tensor, targets: torch.Tensor, generators: Sequence[torch.Generator]) -> Batch:
        """The mini-batch that is trained on in place of this one; `generators` are the members' own."""
        return inputs, targets

    def rule(self, optimiser: torch.optim.Optimizer, generators: Sequence[torch.Generator]) -> GradientRule:
        """Which gradient the optimiser is given."""
        return PlainGradient(optimiser)

    def after_step(self, weights: Weights, start: Weights) -> None:
        """Change the weights in place after a step; `start` are those before fine-tuning."""

    def observe(self, weights: Weights, validation_losses: torch.Tensor) -> None:
        """Called at evaluations with the members' losses [members], if `watches_validation`."""

    def finish(self, weights: Weights) -> None:
        """Change the weights in place at the end."""

    def state(self) -> dict[str, Any]:
        """What must be kept to go on later."""
        return {}

    def restore(self, state: dict[str, Any], weights: Weights) -> None:
        """Continue from `state()`, on the device of `weights`."""
