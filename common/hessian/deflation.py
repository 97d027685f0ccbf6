"""Deflation: what a matrix does in a small space is taken exactly, and only the rest is drawn (Hutch++).

With Q [P, k] an orthonormal basis of A times k random vectors, which holds the outlying eigenvectors nearly, and
R = I − QQᵀ (Meyer, Musco, Musco and Woodruff 2021, algorithm 1; for the norm the same splitting)

    Tr A = Tr QᵀAQ + E (Rv)ᵀ A (Rv)        ‖A‖²_F = 2 ‖AQ‖²_F − ‖QᵀAQ‖²_F + E ‖R A R v‖²

over random signs v. The draws are independent of Q, so that their spread is an honest error; 2 k products come first.
"""

from dataclasses import dataclass, replace

import torch

from common.hessian.estimates import Accuracy, Estimate, average
from common.hessian.problem import Problem
from common.hessian.products import LinearOperator, operator_of
from common.hessian.random import generator


@dataclass(frozen=True)
class Deflation:
    """A basis with what the matrix does in it.

    Attributes:
        basis: Q [P, k].
        trace: Tr QᵀAQ.
        squared_norm: 2 ‖AQ‖²_F − ‖QᵀAQ‖²_F, the part of ‖A‖²_F that meets the basis.
    """

    basis: torch.Tensor
    trace: float = 0.0
    squared_norm: float = 0.0

    def outside(self, vector: torch.Tensor) -> torch.Tensor:
        """R v."""
        return vector - self.basis @ (self.basis.T @ vector) if self.basis.shape[1] else vector


def deflated(operator: LinearOperator, dimension: int, source: torch.Generator) -> Deflation:
    """Deflation by a space of so many dimensions (or P); none draws nothing.

    Raises:
        ValueError: a negative dimension.

    Example:
        >>> from common.hessian import Hessian, Problem
        >>> problem = Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> round(deflated(Hessian(problem), 3, torch.Generator().manual_seed(0)).trace, 4)
        4.0
    """
    if dimension < 0:
        raise ValueError(f"A space of {dimension} dimensions was asked for.")
    problem = operator.problem
    dimension = min(dimension, operator.size)
    if not dimension:
        return Deflation(torch.empty(operator.size, 0, dtype=problem.dtype, device=problem.device))
    probes = torch.stack([problem.random_signs(source) for _ in range(dimension)], dim=1)
    basis = torch.linalg.qr(operator @ probes).Q
    image = operator @ basis
    inside = (basis.T @ image).double()
    squared_norm = 2 * float(image.double().square().sum()) - float(inside.square().sum())
    return Deflation(basis, float(inside.trace()), squared_norm)


def deflated_trace(
    operator: LinearOperator | Problem,
    dimension: int,
    *,
    relative_error: float = 0.01,
    budget: float = 1000.0,
    seed: int = 0,
    beside: float = 0.0,
) -> Estimate:
    """Tr A by Hutch++: fewer draws than `hutchinson_trace` where a few eigenvalues outweigh the others.

    Args:
        operator: a problem stands for its Hessian.
        dimension: of the space in which the trace is taken exactly, at two products each; 2 · dimension vectors
            [P] are held.
        beside: a known number that the value will be added to; the relative error is that of the sum.

    Raises:
        ValueError: a negative dimension.

    Example:
        >>> from common.hessian import Hessian, Problem
        >>> problem = Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> round(deflated_trace(Hessian(problem), 3).value, 4)
        4.0
    """
    operator, source = operator_of(operator), generator(seed)
    before = operator.cost
    inside = deflated(operator, dimension, source)
    accuracy = Accuracy(relative_error, max(budget - (operator.cost - before), 1.0), beside=beside)

    def draw() -> float:
        return inside.trace + operator.quadratic_form(inside.outside(operator.problem.random_signs(source)))

    name = f"Hutch++ beside {inside.basis.shape[1]} dimensions, {operator.name}"
    found = average(draw, cost=lambda: operator.form_cost, accuracy=accuracy, seed=seed, method=name)
    return replace(found, cost=operator.cost - before, passes=found.passes + 2 * inside.basis.shape[1])
