"""A curvature matrix between scales of the weights, D A D: what a rescaling of layers leaves alone.

With D = diag(w) and A = H, ½ρ² λ₁(DHD) is the adaptive sharpness of Kwon et al. (2021, equation 6, p = 2) at a small
radius ρ where the gradient vanishes, and Tr DHD = Σ wᵢ² Hᵢᵢ.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from common.hessian.choices import Of
from common.hessian.ggn import curvature_matrix
from common.hessian.lanczos import Sharpness, largest
from common.hessian.problem import Problem
from common.hessian.products import MEMORY_LIMIT, LinearOperator, operator_of, require_problem


class Rescaled(LinearOperator):
    """D A D as a linear operator, D a diagonal matrix; a product costs what one of A does.

    Args:
        operator: A; a problem stands for its Hessian.
        scale: the diagonal of D [P]; None for the weights w, always the present ones.

    Raises:
        ValueError: `scale` has another shape.

    Example:
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2), torch.zeros(2, 1)))
        >>> (Rescaled(problem, torch.tensor([1.0, 3.0])) @ torch.ones(2)).tolist()
        [1.0, 9.0]
    """

    def __init__(self, operator: LinearOperator | Problem, scale: torch.Tensor | None = None) -> None:
        self._inner = operator_of(operator)
        super().__init__(self._inner.problem)
        self._scale = None if scale is None else self.problem.flat(self.problem.split(scale))
        self.name = f"{self._inner.name} rescaled by {'the weights' if scale is None else 'a given scale'}"

    @property
    def product_cost(self) -> float:
        return self._inner.product_cost

    @property
    def form_cost(self) -> float:
        return self._inner.form_cost

    @contextmanager
    def _counted(self) -> Iterator[torch.Tensor]:
        """The diagonal of D, while what A does is counted as done here."""
        products, cost = self._inner.products, self._inner.cost
        yield self.problem.vector() if self._scale is None else self._scale
        self.products += self._inner.products - products
        self.cost += self._inner.cost - cost

    def quadratic_form(self, vector: torch.Tensor) -> float:
        with self._counted() as scale:
            return self._inner.quadratic_form(scale * vector)

    def __matmul__(self, vectors: torch.Tensor) -> torch.Tensor:
        with self._counted() as scale:
            scale = scale[:, None] if vectors.ndim == 2 else scale
            return scale * (self._inner @ (scale * vectors))


def adaptive_sharpness(
    problem: Problem,
    of: Of = "hessian",
    *,
    relative_error: float = 1e-3,
    products: int = 300,
    seed: int = 0,
    start: torch.Tensor | None = None,
    memory_limit: int = MEMORY_LIMIT,
    basis_limit: int | None = None,
) -> Sharpness:
    """λ₁(DHD), D = diag(w), with its eigenvector: λ₁ of the loss as a function of relative changes of the weights.

    A weight that is zero is left out. A rescaling of ReLU layers that keeps the function keeps this, too, exactly.

    Args:
        relative_error, products, seed, start, memory_limit, basis_limit: as for `sharpness`, with its guarantee.

    Example:
        >>> layers = torch.nn.Linear(2, 3, bias=False), torch.nn.ReLU(), torch.nn.Linear(3, 1, bias=False)
        >>> model = torch.nn.Sequential(*layers).double()
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2).double(), torch.ones(2, 1).double()))
        >>> before = adaptive_sharpness(problem).estimate.value
        >>> for layer, factor in ((layers[0], 10.0), (layers[2], 0.1)):
        ...     layer.weight.data *= factor
        >>> abs(adaptive_sharpness(problem).estimate.value / before - 1) < 1e-6
        True
    """
    require_problem(problem, "adaptive_sharpness")
    return largest(
        Rescaled(curvature_matrix(problem, of, memory_limit=memory_limit)),
        relative_error=relative_error,
        products=products,
        seed=seed,
        start=start,
        basis_limit=basis_limit,
    )
