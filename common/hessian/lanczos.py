"""Extreme eigenpairs by Lanczos's method with full reorthogonalisation, and λ₁ alone, warm-started.

After k products the Krylov space holds Ritz pairs (θ, y); ‖A y − θ y‖ is known without a further product, and some
eigenvalue lies within it of θ. One start vector meets an eigenvalue of several eigenvectors once, unless the space
closes before; then it is continued beside it.

Near θ there may be a larger eigenvalue whose eigenvector the start vector hardly holds, and neither the residual nor
the gaps of the Ritz values tell of it. A random start bounds it (van Dorsselaer, Hochstenbach and van der Vorst 2000):
the next Lanczos vector is p(A) start with p(t) = Π (t − θᵢ)/Π βᵢ, and has length one, so an eigenvector with component
γ of the start has |p(λ)| ≤ 1/|γ|; and |γ| < ε √(π/2P) has probability below ε. As p is steep beyond the largest Ritz
value, λ₁ lies hardly above it, with probability 1 − ε (`RISK`). No product is needed for it, no gap assumed.

Where the basis may hold m vectors only, it is compressed when full: the l extreme Ritz vectors y are kept, and the next
Lanczos vector goes on from them (thick restart, Wu and Simon 2000). What they span is a Krylov space of v⁺ =
Π (A − μⱼ) start, the product over the Ritz values μ that were dropped, so that the next vector is still p(A) start,
with the roots μ beside the present θ. Its norm before scaling is |⟨v⁺, yᵢ⟩| · Π_{j ≠ i} |θᵢ − θⱼ| · ‖A yᵢ − θᵢ yᵢ‖,
the same for every i.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch

from common.hessian.choices import Of, one_of
from common.hessian.estimates import Estimate
from common.hessian.ggn import curvature_matrix
from common.hessian.problem import Problem
from common.hessian.products import MEMORY_LIMIT, LinearOperator, operator_of, require_problem
from common.hessian.random import generator, normal

Which = Literal["magnitude", "largest", "smallest"]
Product = Callable[[torch.Tensor], torch.Tensor]
BLOCK = 16
"""Vectors by which a basis grows."""
COLUMNS = 1 << 16
"""Entries of its vectors that are rotated at once."""
KEPT = 0.5
"""Share of the Ritz vectors, beyond those asked for, that a full basis is compressed to."""
BESIDE = 1e-4
"""Share of a random vector that must be orthogonal to an invariant space for it to continue the space."""
RISK = 0.01
"""Probability, over the start vector, that an eigenvalue lies farther out than the bound says."""


@dataclass(frozen=True, kw_only=True)
class RitzPairs:
    """Extreme eigenvalues and eigenvectors, in the order asked for.

    Attributes:
        values: [k].
        vectors: [P, k], orthonormal.
        residuals: ‖A y − θ y‖ [k]: an eigenvalue lies within it.
        errors: how far out from each value the eigenvalue may lie [k], see `eigenpairs`.
        products: with the operator.
        converged: the errors are as wanted.
    """

    values: torch.Tensor
    vectors: torch.Tensor = field(repr=False)
    residuals: torch.Tensor
    errors: torch.Tensor
    products: int
    converged: bool


@dataclass(frozen=True, kw_only=True)
class Eigenpairs(RitzPairs):
    """Those of a curvature operator.

    Attributes:
        cost: in gradient-equivalents.
        seed: of the start vector; None after a warm start.
        method: as in `Estimate`.
    """

    cost: float
    seed: int | None
    method: str


class Krylov:
    """Orthonormal basis of the Krylov space of a symmetric operator and a start vector, grown by `extend`.

    Attributes:
        kept: Ritz vectors that the basis begins with, after `compress`.
        dropped: Ritz values that `compress` has left out, ever.
        products: made so far.
        diagonal: of the matrix in this basis.
        offdiagonal: beside it; of a kept Ritz vector what couples it to the first vector after them.
    """

    def __init__(self, product: Product, start: torch.Tensor, *, most: int | None = None) -> None:
        self._product = product
        self._most = most  # rows that the basis may take
        rows = BLOCK if most is None else min(BLOCK, most)
        self._basis = torch.empty(rows, start.numel(), dtype=start.dtype, device=start.device)
        self._basis[0] = start / start.norm()
        self.diagonal: list[float] = []
        self.offdiagonal: list[float] = []
        self.kept, self.products = 0, 0
        self.dropped: list[float] = []
        self._scale = 0.0
        self._filtered = torch.ones(1, dtype=torch.float64)  # v⁺ in the kept vectors (the start, as long as none are)
        self._filtered_log = 0.0  # log of what it is to be multiplied by

    @property
    def size(self) -> int:
        """Dimension of the space; products made, where it was never compressed."""
        return len(self.diagonal)

    @property
    def full(self) -> bool:
        """Whether there is room for one more vector only in a larger basis than allowed."""
        return self._most is not None and self.size + 1 >= self._most

    @property
    def basis(self) -> torch.Tensor:
        """Orthonormal rows [size, P]."""
        return self._basis[: self.size]

    def extend(self) -> bool:
        """One more product; False once the space is invariant (nothing new can be found)."""
        k = self.size
        image = self._product(self._basis[k])
        self.products += 1
        self.diagonal.append(float(image @ self._basis[k]))
        beta = float(image.norm())
        for _ in range(2):  # the second time where cancellation has left errors along the basis
            image = image - (self._basis[: k + 1] @ image) @ self._basis[: k + 1]  # rows: much faster than columns
            before, beta = beta, float(image.norm())
            if beta > before / 2:
                break
        self._scale = max(self._scale, abs(self.diagonal[-1]), beta)
        self.offdiagonal.append(beta)
        tiny = torch.finfo(image.dtype).eps ** 0.75 * max(self._scale, 1e-300)
        if beta <= tiny or self.size >= image.numel():
            return False
        self._append(image / beta)
        return True

    def restart(self, source: torch.Generator) -> None:
        """Go on beside an invariant space, from a random vector that is orthogonal to it."""
        rest, share = self.basis[0], 0.0
        while share < BESIDE:  # of a vector within the space, such as the start once more, only rounding is left
            fresh = normal(rest.shape, source, rest)
            rest = fresh
            for _ in range(2):
                rest = rest - (self.basis @ rest) @ self.basis
            share = float(rest.norm() / fresh.norm())
        self.offdiagonal[-1] = 0.0
        self._append(rest / rest.norm())

    def compress(self, theta: torch.Tensor, coefficients: torch.Tensor, chosen: torch.Tensor) -> None:
        """Keep these Ritz vectors and the vector that comes next (thick restart).

        Args:
            theta, coefficients: eigenvalues and eigenvectors of `matrix()`.
            chosen: which to keep.
        """
        size, beta = self.size, self.offdiagonal[-1]
        left = torch.ones(size, dtype=torch.bool).index_fill(0, chosen, value=False)
        gaps = (theta[chosen][:, None] - theta[left]).abs().log().sum(1)
        along = coefficients[: len(self._filtered), chosen].T @ self._filtered
        largest = gaps.max()
        self._filtered = along * (gaps - largest).exp()
        self._filtered_log += float(largest)
        self.dropped += theta[left].tolist()
        rotation = coefficients[:, chosen].T.to(self._basis)
        for some in self._basis.split(COLUMNS, dim=1):  # in place, without a second basis
            some[: len(chosen)] = rotation @ some[:size]
        self._basis[len(chosen)] = self._basis[size]
        self.diagonal = theta[chosen].tolist()
        self.offdiagonal = (beta * coefficients[-1, chosen]).tolist()
        self.kept = len(chosen)

    def scaling(self, theta: torch.Tensor, coefficients: torch.Tensor) -> float:
        """log ‖p(A) start‖ before the next Lanczos vector is scaled to length one, p(t) the product of t − root."""
        if not self.kept:
            return float(torch.tensor(self.offdiagonal, dtype=torch.float64).log().sum())
        along = (coefficients[: len(self._filtered)].T @ self._filtered).abs()
        last = coefficients[-1].abs()
        unseen = torch.finfo(self._basis.dtype).eps  # what a zero may be: the larger the scaling, the wider the bounds
        i = int(torch.minimum(along / self._filtered.norm(), last).argmax())  # where rounding matters least
        others = torch.cat([theta[:i], theta[i + 1 :]])
        gaps = float((theta[i] - others).abs().log().sum())
        share = max(float(along[i]), unseen * float(self._filtered.norm())) * max(float(last[i]), unseen)
        return self._filtered_log + gaps + math.log(share * self.offdiagonal[-1])

    def _append(self, vector: torch.Tensor) -> None:
        if self.size == len(self._basis):
            larger = self._basis.new_empty(self.size + BLOCK, len(vector))
            larger[: self.size] = self._basis
            self._basis = larger
        self._basis[self.size] = vector

    def matrix(self) -> torch.Tensor:
        """A in this basis [size, size], float64: tridiagonal, beside an arrow for the kept Ritz vectors."""
        if not self.kept:
            return self.tridiagonal()
        found = torch.tensor(self.diagonal, dtype=torch.float64).diag()
        for row, value in enumerate(self.offdiagonal[: self.size - 1]):
            column = max(row + 1, self.kept)
            if column < self.size:
                found[row, column] = found[column, row] = value
        return found

    def tridiagonal(self) -> torch.Tensor:
        """The matrix in this basis [size, size], float64."""
        diagonal = torch.tensor(self.diagonal, dtype=torch.float64).diag()
        if self.size > 1:
            beside = torch.tensor(self.offdiagonal[: self.size - 1], dtype=torch.float64)
            diagonal += beside.diag(1) + beside.diag(-1)
        return diagonal


def eigenpairs(
    operator: LinearOperator | Problem,
    count: int = 1,
    *,
    which: Which = "magnitude",
    relative_error: float = 1e-3,
    products: int = 300,
    seed: int = 0,
    start: torch.Tensor | None = None,
    basis_limit: int | None = None,
) -> Eigenpairs:
    """The `count` extreme eigenpairs of a curvature operator.

    Guaranteed, up to rounding: within `residuals` of each value lies an eigenvalue; and with probability 0.99 over the
    start vector the first value is within its `errors` of the extreme eigenvalue, however close the next ones are. The
    further ones are so too if eigenvalues closer to each other than their errors (multiple ones) count once.

    Args:
        operator: a problem stands for its Hessian.
        which: largest magnitude, largest, or smallest (most negative) eigenvalues.
        relative_error: wanted error over |value|, for each.
        products: the most to make.
        start: start vector [P], e.g. an eigenvector found before; default random. With it `errors` are the
            residuals: nothing then tells that no eigenvalue lies farther out.
        basis_limit: bytes that the basis may take; None keeps a vector for each product. A full basis is compressed
            (thick restart), for a few more products and the same guarantee; `count` + 5 vectors it takes at least.

    Raises:
        ValueError: `count` is not between 1 and P, no such `which`, the wanted error is not positive, or the start
            vector is zero or not finite.

    Example:
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> data = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.zeros(2, 1)
        >>> found = eigenpairs(Problem(model, torch.nn.MSELoss(), data), 2)
        >>> [round(value, 4) for value in found.values.tolist()]
        [4.0, 1.0]
    """
    operator = operator_of(operator)
    one_of(which, get_args(Which), "end of the spectrum")
    first = operator.problem.random_normal(generator(seed)) if start is None else start
    before = operator.cost
    found = lanczos(
        operator.__matmul__,
        first,
        count,
        which=which,
        relative_error=relative_error,
        products=products,
        random_start=start is None,
        most=None if basis_limit is None else basis_limit // (first.numel() * first.element_size()),
    )
    seed_used = seed if start is None else None
    return Eigenpairs(**vars(found), cost=operator.cost - before, seed=seed_used, method=f"Lanczos, {operator.name}")


def lanczos(
    product: Product,
    start: torch.Tensor,
    count: int,
    *,
    which: Which,
    relative_error: float,
    products: int,
    random_start: bool = True,
    most: int | None = None,
) -> RitzPairs:
    """`eigenpairs` for any symmetric operator that is given by a function.

    Args:
        random_start: the start vector was drawn at random, on which the errors rest; else they are the residuals.
        most: vectors that the basis may hold (at least `count` + 5), None for as many as products.
    """
    size = start.numel()
    if not relative_error > 0:
        raise ValueError(f"relative_error = {relative_error:g}: the wanted error must be positive.")
    if not 1 <= count <= size:
        raise ValueError(f"{count} eigenvalues of a matrix of {size} rows were asked for.")
    if not torch.isfinite(start).all() or not start.any():
        raise ValueError("The start vector is zero or not finite.")
    krylov = Krylov(product, start, most=None if most is None else max(most, count + 5))
    restarts = torch.Generator().manual_seed(0)
    closed, before = 0, torch.empty(0, dtype=torch.float64)
    while True:
        more = krylov.extend()
        theta, coefficients = torch.linalg.eigh(krylov.matrix())
        ranked = _order(theta, which)
        order = ranked[:count]
        residuals = (krylov.offdiagonal[-1] if more else 0.0) * coefficients[-1].abs()
        if more and not closed and random_start:
            scaling = krylov.scaling(theta, coefficients)
            errors = _error_bounds(krylov, theta, order, which, relative_error, scaling=scaling)
        else:
            errors = residuals[order]
        done = len(order) == count and bool((errors <= relative_error * theta[order].abs()).all())
        exhausted = krylov.size == size
        if exhausted or krylov.products >= products or (done and not closed and more):
            break
        if not more or (closed and krylov.size >= 2 * closed):
            # the space is invariant: eigenvalues of several eigenvectors have been met once; look beside it, once more
            if len(before) == count and torch.allclose(before, theta[order], rtol=1e-6, atol=1e-12):
                break
            before, closed = theta[order], krylov.size
            if not more:
                krylov.restart(restarts)
        elif krylov.full and not closed:
            krylov.compress(theta, coefficients, ranked[: count + math.ceil(KEPT * (krylov.size - count))])
    vectors = coefficients[:, order].T.to(krylov.basis) @ krylov.basis
    return RitzPairs(
        values=theta[order],
        vectors=vectors.T,
        residuals=residuals[order],
        errors=errors,
        products=krylov.products,
        converged=done or exhausted or not more,
    )


def _order(theta: torch.Tensor, which: Which) -> torch.Tensor:
    key = theta.abs() if which == "magnitude" else theta if which == "largest" else -theta
    return key.argsort(descending=True)


def _error_bounds(
    krylov: Krylov, theta: torch.Tensor, order: torch.Tensor, which: Which, relative_error: float, scaling: float
) -> torch.Tensor:
    """How far out from the chosen Ritz values an eigenvalue may lie, with probability 1 − `RISK` for all of them."""
    rarest = RISK / len(order) * math.sqrt(math.pi / (2 * krylov.basis.shape[1]))
    betas = torch.tensor(krylov.offdiagonal, dtype=torch.float64).abs()
    rounding = 4 * torch.finfo(krylov.basis.dtype).eps * float(theta.abs().max())
    widest = 8 * float(theta.abs().max() + betas.max())
    outer = min(len(order) + 1, len(theta))
    roots = torch.cat([theta, torch.tensor(krylov.dropped, dtype=theta.dtype)])
    keys, ends = [], []
    for side in {"largest": (1,), "smallest": (-1,), "magnitude": (1, -1)}[which]:
        along = (side * roots).sort(descending=True).values
        key = along[:outer]
        gaps = torch.cat([torch.tensor([widest], dtype=theta.dtype), -key.diff()])
        wanted = ((1 - 1e-9) * relative_error * key.abs() - rounding).clamp(min=0)  # the distance that matters
        steps = widest * torch.logspace(-12, 0, 97, dtype=theta.dtype).expand(outer, -1)
        steps = torch.minimum(torch.cat([steps, wanted[:, None]], dim=1), gaps[:, None])
        # |p| there, as sums of logarithms
        height = (key[:, None, None] - along + steps[:, :, None]).abs().log().sum(2) - scaling
        reach = torch.where(height >= -math.log(rarest), steps, torch.inf).amin(1)
        reach[1:] = torch.minimum(reach[1:], gaps[1:])  # beyond is the next Ritz value's
        keys.append(key)
        ends.append(key + reach)
    chosen = theta[order].abs() if which == "magnitude" else theta[order] * (1 if which == "largest" else -1)
    key, end = torch.cat(keys), torch.cat(ends)
    return torch.stack([end[key <= value].max() - value for value in chosen]).clamp(min=0) + rounding


def sharpness(
    problem: Problem,
    of: Of = "hessian",
    *,
    relative_error: float = 1e-3,
    products: int = 300,
    seed: int = 0,
    start: torch.Tensor | None = None,
    memory_limit: int = MEMORY_LIMIT,
    basis_limit: int | None = None,
) -> "Sharpness":
    """λ₁, the largest eigenvalue, with its eigenvector for the next warm start.

    Guaranteed, up to rounding: λ₁ is not below the value, and with probability 0.99 over the start vector it is not
    farther above than the bound, however close λ₂ is. (The error itself is mostly far smaller.) The vector is an
    eigenvector only as far as `residual` says; with close eigenvalues it may be a mixture.

    Args:
        start: the eigenvector found at nearby weights; saves most products along a training run. The bound is then
            the residual: some eigenvalue is as near as that, but another one may have overtaken it. Start at random
            now and then.
        memory_limit: bytes of recorded graphs to keep.
        basis_limit: bytes that the basis of Lanczos may take, as in `eigenpairs`.

    Example:
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2) * 2, torch.zeros(2, 1)))
        >>> round(sharpness(problem).estimate.value, 4)
        4.0
    """
    require_problem(problem, "sharpness")
    return largest(
        curvature_matrix(problem, of, memory_limit=memory_limit),
        relative_error=relative_error,
        products=products,
        seed=seed,
        start=start,
        basis_limit=basis_limit,
    )


def largest(
    operator: LinearOperator,
    *,
    relative_error: float,
    products: int,
    seed: int = 0,
    start: torch.Tensor | None = None,
    basis_limit: int | None = None,
) -> "Sharpness":
    """The largest eigenvalue of an operator, with the guarantee and the arguments of `sharpness`."""
    found = eigenpairs(
        operator,
        which="largest",
        relative_error=relative_error,
        products=products,
        seed=seed,
        start=start,
        basis_limit=basis_limit,
    )
    estimate = Estimate(
        float(found.values[0]),
        bound=float(found.errors[0]),
        passes=found.products,
        cost=found.cost,
        seed=found.seed,
        method=found.method + (", warm start" if start is not None else ""),
        converged=found.converged,
        reason="" if found.converged else f"the error bound is {found.errors[0]:.2g} after {found.products} products",
    )
    return Sharpness(estimate, found.vectors[:, 0], float(found.residuals[0]))


@dataclass(frozen=True)
class Sharpness:
    """λ₁ with its eigenvector.

    Attributes:
        estimate: λ₁; `bound` is how far above it may lie, with probability 0.99 (warm start: the residual).
        vector: unit eigenvector [P].
        residual: ‖Hv − λ₁v‖.
    """

    estimate: Estimate
    vector: torch.Tensor = field(repr=False)
    residual: float

    def __str__(self) -> str:
        return str(self.estimate)
