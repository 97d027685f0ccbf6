"""A curvature matrix as SciPy's linear operator: what SciPy solves with products is solved with it, too."""

from typing import TYPE_CHECKING

import torch

from common.hessian.problem import Problem
from common.hessian.products import LinearOperator, operator_of

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse.linalg import LinearOperator as ScipyOperator


def scipy_operator(operator: LinearOperator | Problem, *, damping: float = 0.0) -> "ScipyOperator":
    """The symmetric P × P matrix A + δI for `scipy.sparse.linalg`: `eigsh`, `cg`, `minres`, `expm_multiply`.

    Vectors are NumPy's, in the model's precision; the products are made on the model's device.

    Args:
        operator: A; a problem stands for its Hessian.
        damping: δ, with which `cg` solves what is not positive definite without (a Newton step, an influence function).

    Raises:
        ModuleNotFoundError: SciPy is not installed; the toolkit else needs torch only.

    Example:
        >>> from scipy.sparse.linalg import cg, eigsh
        >>> model = torch.nn.Linear(3, 1, bias=False).double()
        >>> data = torch.diag(torch.tensor([1.0, 2.0, 3.0])).double(), torch.zeros(3, 1).double()
        >>> problem = Problem(model, torch.nn.MSELoss(), data)
        >>> eigsh(scipy_operator(problem), 1)[0].round(4).tolist()
        [6.0]
        >>> cg(scipy_operator(problem, damping=2.0), [1.0, 1.0, 1.0])[0].round(4).tolist()
        [0.375, 0.2143, 0.125]
    """
    from scipy.sparse.linalg import LinearOperator as ScipyOperator

    matrix = operator_of(operator)
    like = matrix.problem.parameters[0].detach()

    def product(vectors: "np.ndarray") -> "np.ndarray":
        given = torch.as_tensor(vectors).to(like)
        return (matrix @ given).add(given, alpha=damping).cpu().numpy()

    dtype = like.new_empty(0).cpu().numpy().dtype
    return ScipyOperator(
        (matrix.size, matrix.size), matvec=product, rmatvec=product, matmat=product, rmatmat=product, dtype=dtype
    )
