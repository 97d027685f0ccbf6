"""Curvature of all tasks against dense Hessians."""

import pytest
import torch

from common.hessian import dense_hessian
from replications.pacgen.shared.two_layer_curvature import Curvature
from tests.unit.replications.pacgen.samples import small_problem


@pytest.mark.parametrize("loss", ["cross_entropy", "probability"])
def test_hessian_diagonals_of_all_tasks_are_those_of_the_dense_hessians(loss):
    problem, weights = small_problem()
    values, _, hessian = dense_hessian(lambda w: problem.losses(w, loss).mean(1), weights)
    torch.testing.assert_close(problem.mean_loss(weights, loss), values)
    diagonals = Curvature(problem, loss).diagonal(weights)
    torch.testing.assert_close(diagonals, hessian.diagonal(dim1=1, dim2=2))
    assert bool((diagonals < 0).any()) == (loss == "probability")


def test_products_and_sharpness_of_all_tasks_are_those_of_the_dense_hessians():
    problem, weights = small_problem()
    _, _, hessian = dense_hessian(lambda w: problem.losses(w).mean(1), weights)
    vectors = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    curvature = Curvature(problem)
    torch.testing.assert_close(curvature.product(weights, vectors), (hessian @ vectors[..., None])[..., 0])
    for found, largest in zip(curvature.sharpness(weights, [1, 2]), torch.linalg.eigvalsh(hessian)[:, -1], strict=True):
        assert found.value == pytest.approx(float(largest), rel=1e-3)
        assert found.bound <= 1e-3 * found.value
