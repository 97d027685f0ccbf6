"""The loss under noise of several strengths along the same directions, and what the Hessian and the kinks predict.

    E ℓ(W + U) − ℓ(W) = σ²/2 Tr H + kinks + remainder,  U ~ N(0, σ² I)

Each direction is taken both ways, so that odd orders cancel. The remainder is averaged direction by direction, with
σ²/2 uᵀHu in place of σ²/2 Tr H, which removes the noise that both sides share.
"""

import math
from collections.abc import Sequence

import torch

from common.hessian import Hessian, Problem, kink_term, trace
from common.hessian.kinks import has_kinks

TRACE_BUDGET, KINK_BUDGET = 60.0, 12.0
"""Gradients that the trace, and the kink term at each σ, may cost."""
KINK_ERROR = 0.1


def perturbed_loss(
    problem: Problem, sigmas: Sequence[float], *, draws: int, trace_error: float, seed: int
) -> list[dict[str, float]]:
    """One row for each σ, of losses in nats.

    `sigma`, `change` (the left side, by plain means over directions) and `change_error`, its standard error;
    `curvature` = σ²/2 Tr H and `curvature_error`; `kinks` (0 for smooth networks) and `kinks_error`; `remainder` =
    E (change − σ²/2 uᵀHu), of which kinks are part, and `remainder_error`; `paired_change` = σ²/2 Tr H + remainder, the
    left side without the noise that both sides share.
    """
    total = trace(problem, relative_error=trace_error, budget=TRACE_BUDGET, seed=seed)
    changes, forms = _along_directions(problem, sigmas, draws, seed)
    kinked, rows = has_kinks(problem), []
    for place, sigma in enumerate(sigmas):
        half = sigma**2 / 2
        remainders = changes[:, place] - half * forms
        options = {"relative_error": KINK_ERROR, "budget": KINK_BUDGET}
        kinks = kink_term(problem, sigma, seed=seed, **options) if kinked else None
        rows.append(
            {
                "sigma": sigma,
                "change": float(changes[:, place].mean()),
                "change_error": float(changes[:, place].std()) / math.sqrt(draws),
                "curvature": half * total.value,
                "curvature_error": half * total.standard_error,
                "kinks": kinks.value if kinks else 0.0,
                "kinks_error": kinks.standard_error if kinks else 0.0,
                "remainder": float(remainders.mean()),
                "paired_change": half * total.value + float(remainders.mean()),
                "remainder_error": float(remainders.std()) / math.sqrt(draws),
            }
        )
    return rows


def perturbing_work(sigmas: int, draws: int) -> float:
    """Gradients that `perturbed_loss` is worth at most: evaluations a third, products with the Hessian three."""
    return draws * (2 * sigmas / 3 + 3) + TRACE_BUDGET + KINK_BUDGET * sigmas


def _along_directions(
    problem: Problem, sigmas: Sequence[float], draws: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(ℓ(W + σu) + ℓ(W − σu))/2 − ℓ(W) [draws, sigmas] and uᵀHu [draws], for normal u."""
    source, hessian = torch.Generator().manual_seed(seed + 1), Hessian(problem)
    at, here = problem.vector(), problem.loss()
    changes = torch.zeros(draws, len(sigmas), dtype=torch.float64)
    forms = torch.zeros(draws, dtype=torch.float64)
    for draw in range(draws):
        direction = torch.randn(problem.size, generator=source).to(at)
        forms[draw] = hessian.quadratic_form(direction)
        for place, sigma in enumerate(sigmas):
            for sign in (sigma, -sigma):
                with problem.at(at + sign * direction):
                    changes[draw, place] += problem.loss() / 2
    return changes - here, forms
