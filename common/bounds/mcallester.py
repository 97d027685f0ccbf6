"""The square-root PAC-Bayes bound and what it takes to choose λ after the posterior.

For a loss in [0, 1] and a λ that is fixed before the data, with probability 1 − δ for all posteriors at once

    gap ≤ λ/(8n) + (KL + log 1/δ)/λ,

by Hoeffding's lemma and Donsker and Varadhan's formula. Its minimum over λ, √((KL + log 1/δ)/(2n)), lies at
λ = √(8n (KL + log 1/δ)), which hangs on the posterior and thereby on the data. Divergences in nats, [...].
"""

import math

import torch


def fixed_complexity(divergence: torch.Tensor, *, scale: float, examples: int, delta: float) -> torch.Tensor:
    """λ/(8n) + (KL + log 1/δ)/λ with λ = `scale`, chosen before the data (Alquier 2021, Theorem 2.1)."""
    return scale / (8 * examples) + (divergence - math.log(delta)) / scale


def optimistic_complexity(divergence: torch.Tensor, *, examples: int, delta: float) -> torch.Tensor:
    """√((KL + log 1/δ)/(2n)): the bound as Wu 2025 prints it, with λ optimised after the posterior is known.

    No proof of it for all posteriors at once is known to us; `maurer_complexity` has one.
    """
    return ((divergence - math.log(delta)) / (2 * examples)).sqrt()


def maurer_complexity(divergence: torch.Tensor, *, examples: int, delta: float) -> torch.Tensor:
    """√((KL + log(2√n/δ))/(2n)): valid for all posteriors at once (Maurer 2004, with Pinsker's inequality)."""
    return ((divergence + math.log(2 * math.sqrt(examples) / delta)) / (2 * examples)).sqrt()


def worst_log_moment(gaps: torch.Tensor, prior: torch.Tensor, scales: torch.Tensor, *, examples: int) -> torch.Tensor:
    """log E_π e^{λ gap} − λ²/(8n) [..., scales] for gaps [..., hypotheses] and λ's [scales].

    A bound with fixed λ fails for some posterior exactly if this exceeds log 1/δ at that λ; the bound with λ optimised
    afterwards (`optimistic_complexity`) exactly if the supremum over λ > 0 does. (Donsker and Varadhan's formula turns
    the supremum over posteriors into the expectation.)
    """
    moments = [torch.logsumexp(scale * gaps + prior.log(), -1) - scale**2 / (8 * examples) for scale in scales]
    return torch.stack(moments, -1)
