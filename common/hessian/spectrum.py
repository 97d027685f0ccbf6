"""Spectral density and log-determinant by stochastic Lanczos quadrature (SLQ), and Frobenius norms.

For a random unit vector q, the eigenvalues θ of Lanczos's tridiagonal matrix with weights τ = (first entries of its
eigenvectors)² are a Gauss quadrature: Σ τ f(θ) ≈ qᵀ f(A) q, and P times its mean over q is Tr f(A)
(Ubaru, Chen and Saad 2017).

Deflated, the k eigenpairs that earlier runs have found (outliers, which converge first) count 1/P each in a run instead
of the random τ, and it goes on beside them: Tr f(A) ≈ Σ f(θ) + (P − k) Σ τ f(θ) of the rest. That needs no further
product. A run's own pairs must not count in it: of an eigenvalue of several eigenvectors it finds the one that its
start singles out. So the first run is plain, and where it has found any it is left out, if two others remain.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

import torch

from common.hessian.deflation import Deflation, deflated
from common.hessian.estimates import Accuracy, Estimate, average, square_root, widened
from common.hessian.lanczos import Krylov, Product
from common.hessian.problem import Problem
from common.hessian.products import LinearOperator, operator_of
from common.hessian.random import generator

FOUND = 1e-2
"""Residual of a Ritz pair, over its value, up to which it counts as an eigenpair."""
SEEN = 1e-9
"""Weight of a Ritz pair above which the start vector, and not rounding, has led to it."""


@dataclass(frozen=True)
class Spectrum:
    """Nodes and weights of SLQ.

    Attributes:
        nodes: eigenvalues of the tridiagonal matrices [vectors, nodes] (padded by the last where a run has fewer).
        weights: [vectors, nodes], each row sums to one.
        size: P.
        products, cost, seed, method: as in `Estimate`.
    """

    nodes: torch.Tensor
    weights: torch.Tensor
    size: int
    _: KW_ONLY
    products: int = 0
    cost: float = 0.0
    seed: int = 0
    method: str = "SLQ"

    def trace_of(self, function: Callable[[torch.Tensor], torch.Tensor], name: str = "f") -> Estimate:
        """Tr f(A), with the standard error over start vectors (nan with one; not that of the quadrature)."""
        values = self.size * (self.weights * function(self.nodes)).sum(1).double()
        vectors = len(values)
        error = widened(float(values.std()), vectors) if vectors > 1 else math.nan
        return Estimate(
            float(values.mean()),
            error,
            samples=vectors,
            passes=self.products,
            cost=self.cost,
            seed=self.seed,
            method=f"{self.method}, Tr {name}",
        )

    def log_determinant(self, damping: float) -> Estimate:
        """log det(A₊ + δ I) with damping δ > 0, A₊ the positive part of A.

        Negative eigenvalues count as zero, which leaves the log-determinant defined for an indefinite Hessian.

        Raises:
            ValueError: the damping is not positive.
        """
        if not damping > 0:
            raise ValueError(f"The damping must be positive, not {damping}: the log-determinant is infinite without.")
        return self.trace_of(lambda x: (x.clamp(min=0) + damping).log(), f"log(A₊ + {damping:g})")

    def density(self, points: torch.Tensor, width: float) -> torch.Tensor:
        """Spectral density at `points`, nodes smoothed by a normal density of standard deviation `width`.

        Raises:
            ValueError: the width is not positive.
        """
        if not width > 0:
            raise ValueError(f"width = {width:g}: the standard deviation of the smoothing must be positive.")
        distance = (torch.as_tensor(points).double()[:, None, None] - self.nodes) / width
        kernel = torch.exp(-0.5 * distance.square()) / (width * math.sqrt(2 * math.pi))
        return (kernel * self.weights).sum(2).mean(1)


def spectrum(
    operator: LinearOperator | Problem, *, vectors: int = 4, steps: int = 64, seed: int = 0, deflate: bool = False
) -> Spectrum:
    """SLQ with `vectors` random starts of `steps` products each.

    Args:
        operator: a problem stands for its Hessian.
        deflate: count the eigenpairs that earlier runs have found exactly (see above): a far better density of as
            many products where there are outliers, by three vectors or more. Holds those found [P], and a second time
            while a run lasts its basis.

    Raises:
        ValueError: fewer than one vector or step.

    Example:
        >>> from common.hessian import Hessian, Problem
        >>> problem = Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> found = spectrum(Hessian(problem), vectors=2, steps=3)
        >>> round(found.nodes.max().item(), 3)
        3.0
    """
    if vectors < 1 or steps < 1:
        raise ValueError(f"{vectors} vectors of {steps} steps were asked for: at least one of each is needed.")
    operator, source = operator_of(operator), generator(seed)
    before, made = operator.cost, operator.products
    known = deflated(operator, 0, source)
    values, rows = torch.empty(0, dtype=torch.float64), []
    for _ in range(vectors):
        krylov = Krylov(_beside(operator, known), known.outside(operator.problem.random_normal(source)))
        while (more := krylov.extend()) and krylov.size < steps:
            pass
        theta, coefficients = torch.linalg.eigh(krylov.tridiagonal())
        weights = coefficients[0].square()
        if deflate:
            exact, share = values, len(values) / operator.size
            residuals = (krylov.offdiagonal[-1] if more else 0.0) * coefficients[-1].abs()
            found = (residuals <= FOUND * theta.abs()) & (weights > SEEN)
            if len(values) + int(found.sum()) < operator.size:  # else nothing is left beside them
                fresh = krylov.basis.T @ coefficients[:, found].to(krylov.basis)
                known = Deflation(torch.linalg.qr(torch.cat([known.basis, fresh], dim=1)).Q)
                values = torch.cat([values, theta[found]])
            theta = torch.cat([exact, theta])
            weights = torch.cat([torch.full_like(exact, 1 / operator.size), (1 - share) * weights])
        rows.append((theta, weights))
    if len(known.basis.T) and len(rows) > 2:
        rows = rows[1:]  # the first has found the outliers for the others, and has them by chance itself
    width = max(min(steps, operator.size), *(len(theta) for theta, _ in rows))
    return Spectrum(
        torch.stack([torch.cat([theta, theta[-1:].expand(width - len(theta))]) for theta, _ in rows]),
        torch.stack([torch.cat([masses, masses.new_zeros(width - len(masses))]) for _, masses in rows]),
        operator.size,
        products=operator.products - made,
        cost=operator.cost - before,
        seed=seed,
        method=f"SLQ {vectors} × {steps}{', deflated' if deflate else ''}, {operator.name}",
    )


def _beside(operator: LinearOperator, known: Deflation) -> Product:
    return lambda vector: known.outside(operator @ vector)


def squared_frobenius_norm(
    operator: LinearOperator | Problem,
    *,
    relative_error: float = 0.05,
    budget: float = 1000.0,
    seed: int = 0,
    deflate: int = 0,
) -> Estimate:
    """‖A‖²_F = E ‖A v‖² with random signs v.

    Args:
        operator: a problem stands for its Hessian.
        deflate: dimensions of a space in which the norm is taken exactly first, at two products each
            (`deflation.py`): far fewer draws where a few eigenvalues outweigh the others. Holds so many vectors [P].

    Example:
        >>> from common.hessian import Hessian, Problem
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> squared_frobenius_norm(Hessian(problem)).value
        4.0
    """
    operator, source = operator_of(operator), generator(seed)
    before = operator.cost
    inside = deflated(operator, deflate, source)
    spent = operator.cost - before

    def draw() -> float:
        image = operator @ inside.outside(operator.problem.random_signs(source))
        return inside.squared_norm + float(inside.outside(image).double().square().sum())

    name = f"squared Frobenius norm, {operator.name}" + (f", deflated by {deflate}" if deflate else "")
    accuracy = Accuracy(relative_error, max(budget - spent, 1.0) if deflate else budget)
    found = average(draw, cost=lambda: operator.product_cost, accuracy=accuracy, seed=seed, method=name)
    return replace(found, cost=operator.cost - before, passes=found.passes + 2 * inside.basis.shape[1])


def frobenius_norm(
    operator: LinearOperator | Problem,
    *,
    relative_error: float = 0.05,
    budget: float = 1000.0,
    seed: int = 0,
    deflate: int = 0,
) -> Estimate:
    """‖A‖_F, the root of `squared_frobenius_norm` (`relative_error` is that of the norm).

    Example:
        >>> from common.hessian import Hessian, Problem
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.ones(3, 1), torch.ones(3, 1)))
        >>> frobenius_norm(Hessian(problem)).value
        2.0
    """
    operator = operator_of(operator)
    squared = squared_frobenius_norm(
        operator, relative_error=2 * relative_error, budget=budget, seed=seed, deflate=deflate
    )
    return square_root(squared, f"Frobenius norm, {operator.name}")
