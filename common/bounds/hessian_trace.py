"""Bounds around fine-tuned weights: the trace of the Hessian, PAC-Bayes with a Gaussian posterior, products of norms.

Zhang 2024 (talk). The loss lies in [0, C]; prior and posterior are N(W⁽⁰⁾, σ² I) and N(W, σ² I), r = ‖W − W⁽⁰⁾‖. All
take tensors of one shape or numbers, and give bounds on a loss in the units of C (nats), but for `norm_product`.
"""

import math

import torch

Number = float | torch.Tensor


def gaussian_divergence(distance: Number, sigma: Number) -> torch.Tensor:
    """KL(N(W, σ² I) ‖ N(W⁽⁰⁾, σ² I)) = r²/(2σ²) in nats."""
    return torch.as_tensor(distance).square() / (2 * torch.as_tensor(sigma).square())


def hessian_bound(
    training_loss: Number, *, trace: Number, distance: Number, limit: Number, examples: int, epsilon: float = 0.0
) -> torch.Tensor:
    """(1 + ε) (L̂ + √(C α r²/n)): Theorem 1 without its term of order n^(−3/4).

    Args:
        trace: α, the largest trace of the Hessian of an example's loss; a negative one counts as 0.
        distance: r.
        limit: C.
        examples: n.
        epsilon: ε; the theorem is for any above 0, 0 is the limit.

    Raises:
        ValueError: n or ε out of range.
    """
    if examples < 1 or epsilon < 0:
        raise ValueError(f"examples={examples}, epsilon={epsilon}: need at least one example and epsilon ≥ 0.")
    alpha = torch.as_tensor(trace).clamp(min=0)
    complexity = (limit * alpha * torch.as_tensor(distance).square() / examples).sqrt()
    return (1 + epsilon) * (torch.as_tensor(training_loss) + complexity)


def mcallester_bound(
    noisy_loss: Number, divergence: Number, *, limit: Number, examples: int, delta: float
) -> torch.Tensor:
    """L̂_Q + C √((KL + log(4n/δ))/n): eq. (2), for a loss in [0, C].

    Args:
        noisy_loss: mean training loss under the posterior.
        divergence: KL in nats.
        delta: the bound fails with probability at most δ.
    """
    _probability(delta)
    excess = torch.as_tensor(divergence) + math.log(4 * examples / delta)
    return torch.as_tensor(noisy_loss) + limit * (excess / examples).sqrt()


def catoni_bound(
    noisy_loss: Number, divergence: Number, *, limit: Number, examples: int, delta: float, beta: Number
) -> torch.Tensor:
    """L̂_Q/β + C (KL + log 1/δ)/(2β(1 − β)n): eqs. (3) and (5), for a loss in [0, C].

    Args:
        beta: β in (0, 1), chosen before the data are seen.

    Raises:
        ValueError: β or δ outside (0, 1).
    """
    _probability(delta)
    share = torch.as_tensor(beta)
    if not bool(((share > 0) & (share < 1)).all()):
        raise ValueError(f"beta={beta}: it must lie between 0 and 1.")
    excess = torch.as_tensor(divergence) - math.log(delta)
    return torch.as_tensor(noisy_loss) / share + limit * excess / (2 * share * (1 - share) * examples)


def norm_product(spectral: torch.Tensor, frobenius: torch.Tensor, *, examples: int) -> torch.Tensor:
    """√(Πᵢ sᵢ² · Σᵢ rᵢ² / n), sᵢ = ‖Wᵢ‖₂, rᵢ = ‖Wᵢ‖_F/‖Wᵢ‖₂ (Bartlett et al. 2017, as the talk has it).

    Args:
        spectral, frobenius: norms of the layers, [..., layers].
    """
    ratios = (frobenius / spectral).square().sum(-1)
    return spectral.prod(-1) * (ratios / examples).sqrt()


def _probability(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta}: it must lie between 0 and 1.")
