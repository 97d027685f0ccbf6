"""Tr H² against the dense matrix."""

import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, dense, eigenpairs
from replications.trace_wrn.shared.curvature import squared_norm


def test_the_trace_of_the_square_is_that_of_the_dense_matrix() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    problem = Problem(model, nn.CrossEntropyLoss(), (torch.randn(30, 6).double(), torch.arange(30) % 3))
    matrix = Hessian(problem)
    exact = float(dense(matrix).square().sum())
    for count in (1, 6):
        pairs = eigenpairs(matrix, count, relative_error=0.5)
        found = squared_norm(matrix, pairs, 60, torch.Generator().manual_seed(count))
        assert found.standard_error > 0
        assert abs(found.value - exact) < 4.5 * found.standard_error
    with pytest.raises(ValueError, match="at least 2"):
        squared_norm(matrix, pairs, 1, torch.Generator())
