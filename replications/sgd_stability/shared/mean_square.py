"""Whether SGD with a learning rate and a batch size stays at an interpolating minimum, in mean square: exactly.

On the linearised model the second moment C of the errors changes by a linear map, which keeps C ⪰ 0:
C ← ACA + 4η²c (Σₐ K_{·a} C_{aa} K_{a·}/N − KCK/N²) with A = I − 2ηK/N, c = (N − B)/(B(N − 1)) and C_{aa} the block of
example a; η stands for the learning rate over the number of outputs, as `squared_error` is a mean over them. In the
eigenbasis of K = U diag(k) Uᵀ, C = U√k M √k Uᵀ makes the map symmetric in M, so that it does not enlarge any C if and
only if ⟨M, M − next M⟩ ≥ 0 for all M. There η can be taken out:

    η · 4[(1 − c) kᵢkⱼ Mᵢⱼ/N² + c Rᵢⱼ/N] ≤ (2/N)(kᵢ + kⱼ) Mᵢⱼ,   R = Σₐ Xₐᵀ (Xₐ M Xₐᵀ) Xₐ,   Xₐ = the rows of U√k of a,

a condition on the largest eigenvalue of one symmetric operator. It is the threshold of Mulayoff and Michaeli ("Exact
mean square linear stability analysis for SGD", 2024), who have it in the weights, with P² unknowns where these are
(N outputs)². For the whole batch it is λ₁ ≤ 2/η; with one weight it is the full criterion of the lecture, which is
sufficient with more.
"""

import torch

from common.hessian.estimates import Estimate
from common.hessian.lanczos import lanczos

RANK = 1e-9
"""Eigenvalues of K below this share of the largest belong to errors that no step changes."""


def rate_over_threshold(
    gram: torch.Tensor,
    outputs: int,
    *,
    learning_rate: float,
    batch_size: int,
    generator: torch.Generator,
    relative_error: float,
    products: int = 60,
) -> Estimate:
    """The learning rate over the largest at which SGD is stable in mean square: at most 1 where it is.

    Args:
        gram: K [N·D, N·D] of N examples with D outputs, float64; row n·D + d is output d of example n.
        outputs: D.
        generator: of the start vector.
        products: that it may take, each two products of matrices of N·D rows, in float32.

    Example:
        >>> kernel = torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64))
        >>> settings = dict(learning_rate=0.2, generator=torch.Generator(), relative_error=1e-4)
        >>> round(rate_over_threshold(kernel, 1, batch_size=2, **settings).value, 3)  # the whole batch: ηλ₁/2
        0.3
    """
    rows, count = len(gram), len(gram) // outputs
    noise = (count - batch_size) / (batch_size * max(1, count - 1))
    values, vectors = torch.linalg.eigh(gram)
    kept = values > RANK * values[-1]
    values, rank = values[kept], int(kept.sum())
    factor = (vectors[:, kept] * values.sqrt()).float()
    examples = factor.view(count, outputs, rank)
    pull = (values[:, None] + values) * 2 / count
    drift = (4 * (1 - noise) / count**2 * values[:, None] * values / pull).float()
    whitening = pull.rsqrt().float()

    def product(vector: torch.Tensor) -> torch.Tensor:
        moment = vector.view(rank, rank)
        own = (factor @ (whitening * moment)).view(count, outputs, rank) @ examples.mT
        own = (own + own.mT) / 2
        kicked = factor.mT @ (own @ examples).view(rows, rank)
        found: torch.Tensor = drift * moment + 4 * noise / count * whitening * kicked
        return found.mul_(learning_rate / outputs).flatten()

    start = torch.randn(rank, rank, generator=generator)
    symmetric = ((start + start.mT) / 2).to(factor).flatten()
    found = lanczos(product, symmetric, 1, which="largest", relative_error=relative_error, products=products)
    return Estimate(
        float(found.values[0]),
        bound=float(found.errors[0]),
        passes=found.products,
        converged=found.converged,
        method="Lanczos, second moment of the errors",
    )
