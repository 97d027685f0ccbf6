"""Finding the first passing of a training loss without evaluating the training set after every step."""

import torch

NEAR = 3.0
"""A run is near a training loss once the mean of its mini-batch losses since the last look is that many times it."""


class LossWatch:
    """Mini-batch losses of each member since the last look: cheap, and they tell who comes near a training loss.

    Args:
        steps: of an epoch.
        looks: how often an epoch is looked at, evenly spread.
    """

    def __init__(self, steps: int, looks: int) -> None:
        self._due = {round(steps * (k + 1) / looks) for k in range(looks)}
        self._losses: list[torch.Tensor] = []

    def add(self, losses: torch.Tensor) -> None:
        """Losses [members] of a step."""
        self._losses.append(losses)

    def due(self, step: int) -> bool:
        """Whether to look after this step of the epoch, the first being 1."""
        return step in self._due

    def take(self) -> list[float]:
        """Mean of each member since the last look; counting begins anew."""
        means: list[float] = torch.stack(self._losses).double().mean(0).tolist()
        self._losses = []
        return means


def near(mean: float, level: float) -> bool:
    """Whether a mean of `LossWatch.take` is near a training loss; never for one that is not finite."""
    return mean <= NEAR * level
