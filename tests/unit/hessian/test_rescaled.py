"""Matrices between scales of the weights, and as SciPy's."""

import numpy as np
import pytest
import torch
from scipy.sparse import linalg
from torch import nn

from common.hessian import (
    GGN,
    Hessian,
    Problem,
    Rescaled,
    adaptive_sharpness,
    deflated_trace,
    dense,
    eigenpairs,
    hutchinson_trace,
    scipy_operator,
    sharpness,
    spectrum,
)


def relu(dtype: torch.dtype = torch.float64) -> Problem:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)).to(dtype)
    data = torch.randn(30, 3, dtype=dtype), torch.randint(0, 2, (30,))
    return Problem(model, nn.CrossEntropyLoss(), data)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_products_and_forms_are_those_of_the_dense_matrix(tanh):
    problem, matrices = tanh
    weights, vector = problem.vector(), problem.random_normal(torch.Generator().manual_seed(1))
    scale = weights.abs() + 0.1
    for operator, matrix, diagonal in (
        (Rescaled(problem), matrices.hessian, weights),
        (Rescaled(GGN(problem)), matrices.ggn, weights),
        (Rescaled(GGN(problem), scale), matrices.ggn, scale),
    ):
        expected = diagonal[:, None] * matrix * diagonal
        close(dense(operator), expected)
        close(operator @ vector, expected @ vector)
        assert operator.quadratic_form(vector) == pytest.approx(float(vector @ expected @ vector))


def test_it_counts_its_own_products_at_what_those_of_the_matrix_cost():
    inner, problem = Hessian(relu()), relu()
    plain, vector = Hessian(problem), problem.vector()
    inner @ vector
    rescaled = Rescaled(inner)
    for operator in (rescaled, plain):
        operator @ torch.stack([vector, vector], 1)
        operator.quadratic_form(vector)
    assert (rescaled.products, inner.products) == (plain.products, plain.products + 1)
    assert rescaled.cost == pytest.approx(plain.cost - 1)  # recorded before
    assert (rescaled.product_cost, rescaled.form_cost) == (plain.product_cost, plain.form_cost)


def test_estimators_take_it(tanh):
    problem, matrices = tanh
    weights = problem.vector()
    expected = weights[:, None] * matrices.ggn * weights
    trace = float(expected.trace())
    for estimate in (
        hutchinson_trace(Rescaled(GGN(problem)), relative_error=0.02),
        deflated_trace(Rescaled(GGN(problem)), 4, relative_error=0.02),
        spectrum(Rescaled(GGN(problem)), vectors=16).trace_of(lambda value: value),
    ):
        assert abs(estimate.value - trace) < 5 * max(estimate.standard_error, 1e-12)
    values = torch.linalg.eigvalsh(expected)
    assert float(eigenpairs(Rescaled(GGN(problem))).values[0]) == pytest.approx(float(values[-1]), rel=1e-3)
    assert adaptive_sharpness(problem, "ggn").estimate.value == pytest.approx(float(values[-1]), rel=1e-3)


def test_what_keeps_the_function_keeps_adaptive_sharpness_and_not_sharpness():
    problem = relu()
    before = [measure(problem).estimate.value for measure in (adaptive_sharpness, sharpness)]
    first, last = problem.model[0], problem.model[2]
    with torch.no_grad():
        first.weight.mul_(20)
        first.bias.mul_(20)
        last.weight.div_(20)
    after = [measure(problem).estimate.value for measure in (adaptive_sharpness, sharpness)]
    assert after[0] == pytest.approx(before[0], rel=1e-3)
    assert after[1] > 10 * before[1]


def test_it_follows_the_weights_unless_its_scale_is_given():
    problem = relu()
    vector, fixed = torch.ones(problem.size).double(), problem.vector()
    moving, given = Rescaled(problem), Rescaled(problem, fixed)
    close(moving @ vector, given @ vector)
    with torch.no_grad():
        problem.model[2].weight.mul_(1.5)
    moved = problem.vector()
    close(moving @ vector, moved * (Hessian(problem) @ moved))
    close(given @ vector, fixed * (Hessian(problem) @ fixed))


def test_a_scale_of_another_shape_and_an_operator_in_place_of_the_problem_are_refused():
    problem = relu()
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Rescaled(problem, torch.ones(3))
    with pytest.raises(TypeError, match="takes the problem"):
        adaptive_sharpness(Hessian(problem))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scipy_solves_with_it(dtype):
    problem = relu(dtype)
    operator, matrix = scipy_operator(GGN(problem)), dense(GGN(problem)).numpy()
    assert operator.dtype == matrix.dtype
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-11}
    block = np.random.default_rng(0).normal(size=(problem.size, 3))
    np.testing.assert_allclose(operator @ block, matrix @ block, **tolerance)
    np.testing.assert_allclose(operator.T @ block[:, 0], matrix @ block[:, 0], **tolerance)
    np.testing.assert_allclose(operator.H @ block[:, :1], matrix @ block[:, :1], **tolerance)
    smallest = linalg.eigsh(scipy_operator(problem), 1, which="SA", return_eigenvectors=False)
    assert smallest[0] == pytest.approx(float(torch.linalg.eigvalsh(dense(problem))[0]), rel=1e-3, abs=1e-5)
    damped = scipy_operator(GGN(problem), damping=0.1)
    np.testing.assert_allclose(damped @ block, matrix @ block + 0.1 * block, **tolerance)
    solution, failed = linalg.cg(damped, block[:, 0], rtol=1e-8)
    assert not failed
    np.testing.assert_allclose(matrix @ solution + 0.1 * solution, block[:, 0], rtol=1e-3, atol=1e-4)
