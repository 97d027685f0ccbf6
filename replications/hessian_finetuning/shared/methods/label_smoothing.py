"""Label smoothing."""

from collections.abc import Sequence

import torch

from .method import Batch, Method


class LabelSmoothing(Method):
    """Trains on (1 − α) · label + α · uniform (Szegedy et al. 2016). Strength: α."""

    def batch(self, inputs: torch.Tensor, targets: torch.Tensor, generators: Sequence[torch.Generator]) -> Batch:
        return inputs, targets * (1 - self.strength) + self.strength / targets.shape[-1]
