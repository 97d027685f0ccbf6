"""When SGD with decoupled noise leaves a quadratic minimum: exact second moments, noise shaped by H or isotropic.

Near an interpolating minimum the loss is L = ½ xᵀHx. In the eigenbasis of H the second moments c_i = E x_i² obey
c_i ← (1 − ηλ_i)² c_i + (η²/B) v_i Σ_j λ_j c_j, because both noises have a covariance in proportion to
2L = Σ_j λ_j c_j: v_i = λ_i for the geometry-aware noise, v_i = Tr(H)/m for the isotropic one of equal variance
(Wu 2025, "The importance of noise structure"; the 1/B is ours, D20). A diagonal plus a matrix of rank one: the mean
loss stays bounded exactly where ηλ_1 < 2 and the load Σ_i η² λ_i v_i/(1 − (1 − ηλ_i)²) is at most B.
"""

from collections.abc import Callable

import torch

Load = Callable[[torch.Tensor], torch.Tensor]
HALVINGS = 80


def geometry_aware_load(steps: torch.Tensor) -> torch.Tensor:
    """Σ_i ηλ_i/(2 − ηλ_i) [k] of ηλ [k, r]; noise covariance 2L H."""
    return (steps / (2 - steps)).sum(-1)


def isotropic_load(steps: torch.Tensor, parameters: int) -> torch.Tensor:
    """(η Tr H/m) Σ_i 1/(2 − ηλ_i) [k] of the nonzero ηλ [k, r]; noise covariance 2L (Tr H/m) I in m dimensions."""
    return steps.sum(-1) / parameters * (1 / (2 - steps)).sum(-1)


def critical_scale(eigenvalues: torch.Tensor, load: Load, batch_size: float) -> torch.Tensor:
    """The η at which the load reaches B, below 2/λ_1, by bisection.

    Args:
        eigenvalues: λ [k, r], positive, float64.
        load: of ηλ; grows with η and has no bound as ηλ_1 comes near 2.

    Returns:
        η [k].
    """
    high = 2 / eigenvalues.amax(-1)
    low = torch.zeros_like(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        stable = load(middle[:, None] * eigenvalues) <= batch_size
        low, high = torch.where(stable, middle, low), torch.where(stable, high, middle)
    return low


def mean_losses(
    steps: torch.Tensor, noise: torch.Tensor, start: torch.Tensor, batch_size: float, count: int
) -> torch.Tensor:
    """E L_t · η [k, count + 1] from the recursion, for ηλ [k, r], ηv [k, r] and x_0 [k, r]."""
    second = start.square()
    losses = [(steps * second).sum(-1) / 2]
    for _ in range(count):
        second = (1 - steps).square() * second + noise * (2 * losses[-1] / batch_size)[:, None]
        losses.append((steps * second).sum(-1) / 2)
    return torch.stack(losses, -1)


def simulated_losses(
    steps: torch.Tensor,
    noise: torch.Tensor,
    start: torch.Tensor,
    *,
    batch_size: float,
    count: int,
    trajectories: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """L_t · η [trajectories, count + 1] of noisy gradient descent itself, for ηλ, ηv and x_0, all [r]."""
    place = start.expand(trajectories, -1).clone()
    losses = [(steps * place.square()).sum(-1) / 2]
    for _ in range(count):
        drawn = torch.randn(place.shape, generator=generator, dtype=torch.float64)
        amplitude = (2 * losses[-1][:, None] * noise / batch_size).sqrt()
        place = (1 - steps) * place - amplitude * drawn
        losses.append((steps * place.square()).sum(-1) / 2)
    return torch.stack(losses, -1)
