"""Mixup."""

from collections.abc import Sequence

import torch

from .method import Batch, Method


class Mixup(Method):
    """Trains on λ x + (1 − λ) x′ with labels mixed alike, λ ~ Beta(a, a) (Zhang et al. 2018). Strength: a ≤ 1.

    x′ are the examples of the mini-batch in random order; λ and the order are drawn once a step for each member. What
    is mixed is what the trained layers are given.

    Raises:
        ValueError: a outside (0, 1].
    """

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        if not 0 < strength <= 1:
            raise ValueError("mixup's a must lie in (0, 1].")

    def batch(self, inputs: torch.Tensor, targets: torch.Tensor, generators: Sequence[torch.Generator]) -> Batch:
        size = targets.shape[1]
        shares = torch.tensor([beta(self.strength, generator) for generator in generators])
        orders = torch.stack([torch.randperm(size, generator=generator) for generator in generators])
        return _mixed(inputs, shares, orders), _mixed(targets, shares, orders)


def _mixed(tensor: torch.Tensor, shares: torch.Tensor, orders: torch.Tensor) -> torch.Tensor:
    members = torch.arange(len(tensor), device=tensor.device)[:, None]
    share = shares.to(tensor).view(-1, *(1,) * (tensor.ndim - 1))
    return share * tensor + (1 - share) * tensor[members, orders.to(tensor.device)]


def beta(a: float, generator: torch.Generator) -> float:
    """A draw of Beta(a, a) for a ≤ 1, by Jöhnk's rejection.

    Example:
        >>> 0 <= beta(0.5, torch.Generator().manual_seed(0)) <= 1
        True
    """
    while True:
        x, y = (torch.rand(2, generator=generator, dtype=torch.float64) ** (1 / a)).tolist()
        if 0 < x + y <= 1:
            return float(x / (x + y))
