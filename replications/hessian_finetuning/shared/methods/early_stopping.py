"""Early stopping."""

from typing import Any

import torch

from .method import Method, Weights


class EarlyStopping(Method):
    """Stops after a share of the steps, at the weights with the lowest validation loss so far.

    Strength: the share of the budget that may be used. The losses looked at are those at the evaluations, each member's
    own; at the end each member has the weights of its best one.
    """

    watches_validation = True

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self._lowest = torch.empty(0)
        self._best: Weights = {}

    def steps(self, budget: int) -> int:
        return max(1, round(self.strength * budget))

    def observe(self, weights: Weights, validation_losses: torch.Tensor) -> None:
        if not self._best:
            self._lowest = torch.full_like(validation_losses, torch.inf)
            self._best = {name: tensor.detach().clone() for name, tensor in weights.items()}
        better = validation_losses < self._lowest
        self._lowest = torch.where(better, validation_losses, self._lowest)
        for name, tensor in weights.items():
            self._best[name][better] = tensor.detach()[better]

    def finish(self, weights: Weights) -> None:
        with torch.no_grad():
            for name, tensor in weights.items():
                tensor.copy_(self._best[name])

    def state(self) -> dict[str, Any]:
        return {"lowest": self._lowest, "best": self._best}

    def restore(self, state: dict[str, Any], weights: Weights) -> None:
        self._lowest = state["lowest"].to(next(iter(weights.values())).device)
        self._best = {name: tensor.to(weights[name].device) for name, tensor in state["best"].items()}
