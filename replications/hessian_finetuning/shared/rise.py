"""How much noise in the weights raises the loss, which noise injection lowers: with the kinks that Tr H leaves out."""

import torch

from common.hessian import Problem


def rise_under_noise(problem: Problem, sigma: float, *, directions: int, seed: int) -> float:
    """E ℓ(W + U) − ℓ(W) in nats, U ~ N(0, σ² I): the mean over directions, each taken both ways.

    Example:
        >>> from torch import nn
        >>> problem = Problem(nn.Linear(1, 1, bias=False), nn.MSELoss(), (torch.ones(2, 1), torch.zeros(2, 1)))
        >>> round(rise_under_noise(problem, 0.1, directions=2000, seed=0), 3)  # σ²/2 Tr H, the Hessian being 2
        0.01
    """
    source, own = torch.Generator().manual_seed(seed), problem.vector()
    noisy = 0.0
    for _ in range(directions):
        noise = sigma * torch.randn(problem.size, generator=source).to(own)
        for there in (own + noise, own - noise):
            with problem.at(there):
                noisy += problem.loss() / (2 * directions)
    return noisy - problem.loss()
