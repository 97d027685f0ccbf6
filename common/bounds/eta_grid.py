"""What it costs to choose η after seeing the data: Theorem 7 of Wang et al. 2018 and its proof (Appendix B).

With X = KL + log 1/δ the complexity X/η + η/(2n) is at least 2 √(X/(2n)), at η = √(2nX). That η depends on the data,
so a grid η_j = e^j √(2n log 1/δ_j), δ_j = δ 2^−(j+1), is laid beforehand and each point pays for its share of δ.
Divergences are in nats, [...].
"""

import math

import torch


def best_complexity(divergence: torch.Tensor, *, examples: int, delta: float) -> torch.Tensor:
    """2 √((KL + log 1/δ)/(2n)): the minimum of eq. (10) over η, which no valid choice of η can undercut."""
    return 2 * ((divergence - math.log(delta)) / (2 * examples)).sqrt()


def grid_complexity(divergence: torch.Tensor, *, examples: int, delta: float, points: int = 60) -> torch.Tensor:
    """The smallest (KL + log 1/δ_j)/η_j + η_j/(2n) over the grid of Appendix B: valid by the union bound."""
    j = torch.arange(points, dtype=torch.float64, device=divergence.device)
    confidence = (j + 1) * math.log(2) - math.log(delta)
    eta = j.exp() * (2 * examples * confidence).sqrt()
    values: torch.Tensor = ((divergence[..., None] + confidence) / eta + eta / (2 * examples)).amin(-1)
    return values


def closed_complexity(
    divergence: torch.Tensor, *, examples: int, delta: float, as_printed: bool = False
) -> torch.Tensor:
    """(1 + e) √((KL + log 1/δ + ½ log 2 (2 + log(KL/log(1/δ) + 1)))/(2n)), in place of a search over the grid.

    The grid has a point η_j = η*/c with 1 ≤ c ≤ e below the best η*, where the first term is at most e √(X/(2n)) and
    the second at most √(X/(2n)). The last line of Appendix B prints 1 + 1/e for 1 + e (`as_printed`), which lies below
    the minimum 2 over all η.
    """
    confidence = -math.log(delta)
    paid = divergence + confidence + math.log(2) / 2 * (2 + (divergence / confidence + 1).log())
    return (1 + (1 / math.e if as_printed else math.e)) * (paid / (2 * examples)).sqrt()
