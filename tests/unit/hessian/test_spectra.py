import math

import pytest
import torch
from torch import nn

from common.hessian import (
    GGN,
    Hessian,
    LinearOperator,
    Problem,
    Spectrum,
    eigenpairs,
    frobenius_norm,
    ggn_frobenius_norm,
    ggn_spectrum,
    sharpness,
    spectrum,
    squared_frobenius_norm,
)
from common.hessian.ascent import maximise
from common.hessian.lanczos import Krylov, lanczos


def test_extreme_eigenpairs_are_those_of_the_dense_hessian(case):
    problem, matrices = case
    exact = torch.linalg.eigvalsh(matrices.hessian)
    for which, expected in (
        ("largest", exact.flip(0)[:3]),
        ("smallest", exact[:3]),
        ("magnitude", exact[exact.abs().argsort(descending=True)[:3]]),
    ):
        found = eigenpairs(Hessian(problem), 3, which=which, relative_error=1e-8, seed=1)
        assert found.converged
        torch.testing.assert_close(found.values, expected, rtol=1e-6, atol=1e-8)


def test_residuals_are_those_of_the_vectors_and_bound_the_error(tanh):
    problem, matrices = tanh
    found = eigenpairs(Hessian(problem), 2, which="largest", relative_error=1e-2)
    residual = (matrices.hessian @ found.vectors - found.vectors * found.values).norm(dim=0)
    torch.testing.assert_close(residual, found.residuals, rtol=1e-6, atol=1e-9)
    exact = torch.linalg.eigvalsh(matrices.hessian)
    assert bool(((exact[:, None] - found.values).abs().amin(0) <= found.residuals + 1e-12).all())
    torch.testing.assert_close(found.vectors.T @ found.vectors, torch.eye(2).double(), rtol=0, atol=1e-12)


def test_a_compressed_basis_whose_vectors_have_all_converged_goes_on():
    diagonal = torch.cat([torch.tensor([1.0, 0.999, 0.99]), torch.linspace(0, 0.9, 60)]).double()  # one of them is zero
    inputs = torch.diag((diagonal * len(diagonal) / 2).sqrt())
    layer = nn.Linear(len(diagonal), 1, bias=False).double()
    problem = Problem(layer, nn.MSELoss(), (inputs, torch.zeros(len(diagonal), 1).double()))
    for seed in range(3):
        found = eigenpairs(problem, which="smallest", basis_limit=12 * 8 * len(diagonal), products=150, seed=seed)
        assert abs(float(found.values)) <= float(found.errors) < 1e-9


def test_warm_start_needs_fewer_products(tanh):
    problem, matrices = tanh
    cold = sharpness(problem, relative_error=1e-3)
    warm = sharpness(problem, relative_error=1e-3, start=cold.vector)
    assert warm.estimate.passes < cold.estimate.passes
    largest = float(torch.linalg.eigvalsh(matrices.hessian)[-1])
    for found in (cold, warm):
        assert abs(found.estimate.value - largest) <= 1e-3 * largest


@pytest.mark.parametrize("gap", [0.03, 0.01, 0.001])
@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_close_extreme_eigenvalues_are_not_taken_for_each_other(gap, which):
    top = torch.tensor([1, 1 - gap, 0.8, 0.6, 0.5, 0.4, 0.3], dtype=torch.float64)
    bulk = 0.02 * torch.randn(993, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    scale = torch.cat([top, bulk]) * (-1 if which == "smallest" else 1)
    if which == "magnitude":
        scale[1] *= -1
    extreme, missed = float(scale[0]), 0
    for relative_error in (1e-2, 1e-3):
        for seed in range(50):
            start = torch.randn(1000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            found = lanczos(lambda v: scale * v, start, 1, which=which, relative_error=relative_error, products=100)
            assert found.converged
            assert found.products < 25
            assert float(found.errors) <= relative_error
            missed += abs(float(found.values) - extreme) > float(found.errors)
    assert missed <= 2


@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_compressed_basis_finds_the_same_with_hardly_more_products(which):
    source = torch.Generator().manual_seed(5)
    outliers = torch.cat([torch.tensor([1, 0.99, 0.8, -0.7, 0.5]).double(), 0.05 * torch.randn(995, generator=source)])
    for scale, most in ((outliers, 8), (torch.linspace(-0.3, 1, 1000).double(), 15)):
        scale = -scale if which == "smallest" else scale
        extreme, missed, made = float(scale[scale.abs().argmax()]), 0, [0, 0]
        for seed in range(20):
            start = torch.randn(1000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            for place, rows in enumerate((None, most)):
                found = lanczos(
                    lambda v: scale * v,  # noqa: B023
                    start,
                    1,
                    which=which,
                    relative_error=1e-2,
                    products=300,
                    most=rows,
                )
                assert found.converged
                made[place] += found.products
                missed += abs(float(found.values) - extreme) > float(found.errors)
            residual = (scale * found.vectors[:, 0] - found.values * found.vectors[:, 0]).norm()
            torch.testing.assert_close(residual, found.residuals[0], rtol=1e-5, atol=1e-9)
        assert missed <= 1
        assert made[0] < made[1] <= 1.2 * made[0]


def test_root_that_scales_the_next_vector_is_known_after_the_basis_was_compressed():
    scale = torch.linspace(-1, 2, 40, dtype=torch.float64)
    start = torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    krylov = Krylov(lambda v: scale * v, start, most=9)
    for _ in range(3):
        while True:
            krylov.extend()
            theta, coefficients = torch.linalg.eigh(krylov.matrix())
            if krylov.full:
                break
        roots = torch.cat([theta, torch.tensor(krylov.dropped, dtype=torch.float64)])
        image = (scale[:, None] - roots).prod(1) * start / start.norm()
        assert krylov.scaling(theta, coefficients) == pytest.approx(float(image.norm().log()), abs=1e-4)
        dense = krylov.basis @ (scale[:, None] * krylov.basis.T)
        torch.testing.assert_close(dense, krylov.matrix(), rtol=0, atol=1e-12)
        krylov.compress(theta, coefficients, theta.argsort(descending=True)[:4])
    assert krylov.products == 8 + 4 + 4
    assert len(krylov.basis) == 4


def test_basis_within_a_limit_of_bytes_gives_the_sharpness(tanh):
    problem, matrices = tanh
    found = sharpness(problem, relative_error=1e-6, basis_limit=10 * 8 * problem.size)
    assert found.estimate.converged
    assert found.estimate.passes > 10
    assert found.estimate.value == pytest.approx(float(torch.linalg.eigvalsh(matrices.hessian)[-1]), rel=1e-6)


def test_further_eigenpairs_next_to_close_ones_are_found():
    scale = torch.cat([torch.tensor([1, 0.97, 0.96, 0.8, 0.6]), 0.02 * torch.arange(495) / 495]).double()
    for seed in range(20):
        start = torch.randn(500, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        found = lanczos(lambda v: scale * v, start, 3, which="largest", relative_error=1e-3, products=100)
        assert bool(((found.values - scale[:3]).abs() <= found.errors).all())


def test_too_few_products_are_reported_as_not_converged(tanh):
    found = sharpness(tanh[0], relative_error=1e-9, products=2)
    assert not found.estimate.converged
    assert found.estimate.error > 0


def test_lanczos_on_indefinite_degenerate_and_zero_matrices():
    for diagonal in ([3.0, -5.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, -1.0, -1.0]):
        scale = torch.tensor(diagonal, dtype=torch.float64)
        start = torch.randn(4, generator=torch.Generator().manual_seed(0)).double()
        product = lambda v, scale=scale: scale * v  # noqa: E731
        for count in (1, 2, 4):
            found = lanczos(product, start, count, which="largest", relative_error=1e-10, products=50)
            assert len(found.values) == count
            images = scale[:, None] * found.vectors
            torch.testing.assert_close(images, found.vectors * found.values, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [0, 1, 4, 8, 9])
def test_beside_an_invariant_space_the_basis_stays_orthonormal_whatever_the_start(rank, dtype):
    """With the seed of the continuation, too, whose first vector is then the start, which lies in the space."""
    for seed in range(4):
        source = torch.Generator().manual_seed(100 + seed)
        matrix = torch.zeros(9, 9, dtype=torch.float64)
        matrix[:rank, :rank] = torch.randn(rank, rank, generator=source, dtype=torch.float64)
        matrix += matrix.T.clone()
        start = torch.randn(9, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        held = matrix.to(dtype)
        for count in (1, 3):
            found = lanczos(held.__matmul__, start, count, which="largest", relative_error=1e-9, products=50)
            right = torch.linalg.eigvalsh(matrix).flip(0)[:count]
            exact = {"rtol": 0, "atol": 1e-5 if dtype == torch.float32 else 1e-12}
            torch.testing.assert_close(found.values, right, **exact)
            torch.testing.assert_close(found.vectors.T @ found.vectors, torch.eye(count, dtype=dtype), **exact)


def test_eigenvalues_that_do_not_exist_are_refused(tanh):
    with pytest.raises(ValueError, match="asked for"):
        eigenpairs(Hessian(tanh[0]), 10_000)
    with pytest.raises(ValueError, match="start vector"):
        eigenpairs(Hessian(tanh[0]), start=torch.zeros(tanh[0].size))


def test_full_quadrature_has_the_moments_of_the_spectrum(tanh):
    problem, matrices = tanh
    exact = torch.linalg.eigvalsh(matrices.hessian)
    found = spectrum(Hessian(problem), vectors=60, steps=problem.size, seed=3)
    for estimate, expected in (
        (found.trace_of(lambda x: x), exact.sum()),
        (found.trace_of(lambda x: x.square()), exact.square().sum()),
        (found.log_determinant(0.1), (exact.clamp(min=0) + 0.1).log().sum()),
    ):
        assert abs(estimate.value - float(expected)) < 4.5 * estimate.standard_error
    torch.testing.assert_close(found.weights.sum(1), torch.ones(60).double())


class Given(LinearOperator):
    """A matrix with these eigenvalues."""

    name = "matrix of given eigenvalues"

    def __init__(self, eigenvalues: torch.Tensor) -> None:
        layer = nn.Linear(len(eigenvalues), 1, bias=False).double()
        super().__init__(Problem(layer, nn.MSELoss(), (torch.zeros(1, len(eigenvalues)).double(), torch.zeros(1, 1))))
        self.eigenvalues = eigenvalues

    def __matmul__(self, vectors: torch.Tensor) -> torch.Tensor:
        self.products += 1
        return self.eigenvalues * vectors


def distance(found: Spectrum, eigenvalues: torch.Tensor) -> float:
    """Area between the two distribution functions (Wasserstein-1)."""
    masses = torch.cat([found.weights.flatten() / len(found.weights), torch.full_like(eigenvalues, -1 / found.size)])
    points, order = torch.cat([found.nodes.flatten(), eigenvalues]).sort()
    return float((masses[order].cumsum(0)[:-1].abs() * points.diff()).sum())


@pytest.mark.parametrize("outliers", [12, 0])
def test_deflated_quadrature_takes_half_the_products_where_there_are_outliers_and_as_many_where_not(outliers):
    bulk = torch.linspace(-0.1, 0.1, 600 - outliers, dtype=torch.float64)
    eigenvalues = torch.cat([bulk, torch.linspace(2, 30, outliers, dtype=torch.float64)])
    errors = {}
    for deflate, steps in ((False, 32), (True, 32), (True, 16)):
        runs = [spectrum(Given(eigenvalues), steps=steps, seed=seed, deflate=deflate) for seed in range(5)]
        assert all(run.products == 4 * steps for run in runs)
        for run in runs:
            torch.testing.assert_close(run.weights.sum(1), torch.ones(len(run.weights)).double())
        errors[deflate, steps] = sum(distance(run, eigenvalues) for run in runs)
    if outliers:
        assert errors[True, 32] < errors[False, 32] / 4
        assert errors[True, 16] < errors[False, 32]
    else:
        assert errors[True, 32] <= 1.3 * errors[False, 32]  # the first of four runs is left out


def test_deflated_quadrature_has_the_moments_of_the_spectrum(tanh):
    problem, matrices = tanh
    exact = torch.linalg.eigvalsh(matrices.hessian)
    values = [
        (found.trace_of(lambda x: x).value, found.log_determinant(0.1).value)
        for found in (spectrum(Hessian(problem), steps=problem.size // 2, seed=s, deflate=True) for s in range(20))
    ]
    right = exact.sum(), (exact.clamp(min=0) + 0.1).log().sum()
    for column, expected in zip(zip(*values, strict=True), right, strict=True):
        sample = torch.tensor(column)
        assert abs(float(sample.mean() - expected)) < 4.5 * float(sample.std()) / len(sample) ** 0.5


def test_the_curvature_of_a_convex_loss_given_as_a_function_is_that_of_the_known_one():
    torch.manual_seed(0)
    model, inputs, classes = nn.Linear(3, 4), torch.randn(9, 3), torch.randint(0, 4, (9,))
    known = Problem(model, nn.CrossEntropyLoss(), (inputs, classes))
    unknown = Problem(model, lambda o, t: nn.functional.cross_entropy(o, t), (inputs, classes))
    assert ggn_frobenius_norm(unknown).value == pytest.approx(ggn_frobenius_norm(known).value, rel=1e-5)
    torch.testing.assert_close(ggn_spectrum(unknown)[-9:], ggn_spectrum(known)[-9:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("vectors", [2, 4])
def test_deflated_quadrature_is_unbiased_where_each_eigenvalue_has_four_eigenvectors(vectors):
    eigenvalues = torch.linspace(0.1, 3, 16, dtype=torch.float64).square().repeat_interleave(4)
    for steps in (10, 64):
        found = [spectrum(Given(eigenvalues), vectors=vectors, steps=steps, seed=s, deflate=True) for s in range(60)]
        traces = torch.tensor([one.trace_of(lambda x: x).value for one in found])
        assert abs(float(traces.mean() - eigenvalues.sum())) < 3.5 * float(traces.std()) / len(traces) ** 0.5


def test_deflated_quadrature_of_equal_eigenvalues_keeps_their_number():
    for eigenvalues in (torch.ones(50), torch.tensor([5.0, 3.0] + 40 * [1.0] + 20 * [0.0])):
        found = spectrum(Given(eigenvalues.double()), vectors=3, steps=8, deflate=True)
        assert found.trace_of(lambda x: x).value == pytest.approx(float(eigenvalues.sum()), rel=0.25)
        near_one = ((found.nodes - 1).abs() < 1e-6) * found.weights
        assert float(near_one.sum(1).mean()) == pytest.approx(float((eigenvalues == 1).double().mean()), rel=0.25)


def test_spectral_density_integrates_to_one_and_a_determinant_needs_damping(tanh):
    found = spectrum(Hessian(tanh[0]), vectors=2, steps=10)
    points = torch.linspace(-3, 6, 4001).double()
    assert float(found.density(points, 0.05).sum() * (points[1] - points[0])) == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match="damping"):
        found.log_determinant(0.0)


def test_kernel_spectrum_is_that_of_the_dense_ggn(case):
    problem, matrices = case
    exact = torch.linalg.eigvalsh(matrices.ggn)
    found = ggn_spectrum(problem)
    size = min(len(found), len(exact))
    torch.testing.assert_close(found[-size:], exact[-size:], rtol=1e-8, atol=1e-10)
    assert ggn_frobenius_norm(problem).value == pytest.approx(float(matrices.ggn.norm()), rel=1e-9)


def test_frobenius_norms_lie_within_their_error_bars(case):
    problem, matrices = case
    for matrix, exact in ((Hessian(problem), matrices.hessian), (GGN(problem), matrices.ggn)):
        squared = squared_frobenius_norm(matrix, relative_error=0.1, budget=200, seed=2)
        assert abs(squared.value - float(exact.square().sum())) < 5 * squared.standard_error + 1e-9
        norm = frobenius_norm(matrix, relative_error=0.05, budget=200, seed=2)
        assert norm.value == pytest.approx(math.sqrt(squared.value))
        deflated = squared_frobenius_norm(matrix, relative_error=1e-9, budget=60, seed=2, deflate=6)
        assert abs(deflated.value - float(exact.square().sum())) < 5 * deflated.standard_error + 1e-9
        assert deflated.standard_error < squared_frobenius_norm(matrix, relative_error=1e-9, budget=60).standard_error


def test_maximum_in_a_box_is_at_a_corner_or_inside():
    matrix = torch.diag(torch.tensor([1.0, -2.0, 3.0]))

    def function(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        return float(x @ matrix @ x), 2 * matrix @ x

    found = maximise(function, torch.tensor([0.1, 0.5, 0.2]), lambda x: x.clamp(-1, 1), 100)
    assert found.converged
    assert found.value == pytest.approx(4)
    cut = maximise(function, torch.tensor([0.1, 0.5, 0.2]), lambda x: x.clamp(-1, 1), 1)
    assert not cut.converged
    assert cut.status == "1 iterations"
