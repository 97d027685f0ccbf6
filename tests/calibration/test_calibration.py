"""Every stochastic estimate over many seeds: unbiased, |z| < 4, and a standard error that means what it says.

Not part of the default tests (`make test-calibration` runs them); the unit tests hold a short form.
"""

import os
from collections.abc import Callable

import pytest
import torch
from torch import nn

from common.hessian import (
    GGN,
    Estimate,
    Hessian,
    Problem,
    control_variate_trace,
    deflated_trace,
    diagonal,
    estimate_ggn_diagonal,
    kink_term,
    noise_along_curvature,
    noise_norm,
    spectrum,
    squared_frobenius_norm,
    squared_norm_from_perturbations,
    trace,
    trace_from_perturbations,
)
from tests.unit.hessian.networks import data_of, dense_matrices, kinks_of_two_layers

SEEDS = int(os.environ.get("CALIBRATION_SEEDS", "200"))
COUNT = 40


def problem_of(kind: str) -> Problem:
    torch.manual_seed(0)
    x, y = torch.randn(COUNT, 5), torch.randint(0, 3, (COUNT,))
    if kind == "tokens":
        model: nn.Module = nn.Sequential(
            nn.Embedding(5, 6), nn.LayerNorm(6), nn.Linear(6, 8), nn.GELU(), nn.Flatten(), nn.Linear(32, 3)
        )
        return Problem(model.double(), nn.CrossEntropyLoss(), (torch.randint(0, 5, (COUNT, 4)), y), chunk=16)
    if kind == "pictures":
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3))
        return Problem(model.double(), nn.CrossEntropyLoss(), (torch.randn(COUNT, 1, 6, 6).double(), y), chunk=16)
    if kind == "deep":
        model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
        return Problem(model.double(), nn.CrossEntropyLoss(), (x.double(), y), chunk=16)
    activation = nn.ReLU() if kind == "relu" else nn.Tanh()
    model = nn.Sequential(nn.Linear(5, 12), activation, nn.Linear(12, 3))
    return Problem(model.double(), nn.CrossEntropyLoss(), (x.double(), y), chunk=16)


def check(estimate: Callable[[int], Estimate], exact: float) -> None:
    scores = []
    for seed in range(SEEDS):
        found = estimate(1000 + seed)
        scores.append((found.value - exact) / found.standard_error)
    z = torch.tensor(scores, dtype=torch.float64)
    slack = 3 * (2 / SEEDS) ** 0.5  # of the mean of squares itself
    within = [float((z.abs() < width).double().mean()) for width in (1, 1.96)]
    print(f"max |z| {z.abs().max():.2f}, mean z {z.mean():.3f}, mean z² {z.square().mean():.3f}, within {within}")
    assert z.abs().max() < 4
    assert abs(z.mean()) < 4 / SEEDS**0.5
    assert min(0.8, 1 - slack) < z.square().mean() < max(1.25, 1 + slack)


def dense(problem: Problem):
    return dense_matrices(problem.model, *data_of(problem), problem.loss_function)


@pytest.mark.parametrize(
    ("kind", "of", "method"),
    [
        ("tanh", "hessian", "sample signs"), ("tokens", "hessian", "sample signs"),
        ("pictures", "hessian", "sample signs"), ("relu", "hessian", "sample signs"), ("tanh", "ggn", "output signs"),
        ("pictures", "ggn", "output signs"), ("tanh", "hessian", "hutchinson"), ("tokens", "ggn", "hutchinson"),
    ],
)  # fmt: skip
def test_traces(kind, of, method):
    problem = problem_of(kind)
    exact = float(getattr(dense(problem), of).trace())
    check(lambda seed: trace(problem, of, method=method, relative_error=1e-9, budget=100, seed=seed), exact)


def test_traces_that_stop_by_themselves():
    problem = problem_of("tanh")
    exact = float(dense(problem).hessian.trace())
    check(lambda seed: trace(problem, relative_error=0.06, seed=seed), exact)


def test_traces_of_diagonals():
    problem = problem_of("tanh")
    exact = float(dense(problem).ggn.trace())
    check(lambda seed: diagonal(problem, "ggn", method="monte carlo", draws=30, seed=seed).trace, exact)
    inputs, _ = data_of(problem)

    def by_model(seed: int) -> Estimate:
        source = torch.Generator().manual_seed(seed)
        return estimate_ggn_diagonal(problem.model, inputs, probes=4, generator=source).trace

    check(by_model, exact)


def test_frobenius_norms():
    problem = problem_of("tanh")
    matrices = dense(problem)
    for kind, exact in ((Hessian, matrices.hessian), (GGN, matrices.ggn)):
        matrix = kind(problem)
        squared = float(exact.square().sum())
        check(lambda seed: squared_frobenius_norm(matrix, relative_error=1e-9, budget=100, seed=seed), squared)  # noqa: B023


@pytest.mark.parametrize("kind", ["tokens", "deep"])
def test_control_variates(kind):
    problem = problem_of(kind)
    exact = float(dense(problem).hessian.trace())
    check(lambda seed: control_variate_trace(problem, relative_error=1e-9, budget=60, seed=seed), exact)


def test_deflated_draws():
    problem = problem_of("tanh")
    matrix, exact = Hessian(problem), dense(problem).hessian
    options = {"relative_error": 1e-9, "budget": 100}
    check(lambda seed: deflated_trace(matrix, 8, seed=seed, **options), float(exact.trace()))
    squared = float(exact.square().sum())
    check(lambda seed: squared_frobenius_norm(matrix, deflate=8, seed=seed, **options), squared)


def test_noise():
    problem = problem_of("tanh")
    matrices = dense(problem)
    centred = matrices.gradients - matrices.gradients.mean(0)
    noise = centred.T @ centred / COUNT
    check(
        lambda seed: noise_along_curvature(problem, relative_error=1e-9, budget=500, seed=seed),
        float((noise @ matrices.ggn).trace()),
    )
    check(lambda seed: noise_norm(problem, relative_error=1e-9, budget=300, seed=seed), float(noise.norm()))


def test_quadrature():
    matrix = Hessian(problem_of("tanh"))
    exact = torch.linalg.eigvalsh(dense(matrix.problem).hessian)
    value = float((exact.clamp(min=0) + 0.1).log().sum())
    check(lambda seed: spectrum(matrix, vectors=12, steps=40, seed=seed).log_determinant(0.1), value)


def test_perturbations_of_a_quadratic_loss():
    torch.manual_seed(0)
    x, y = torch.randn(COUNT, 4).double(), torch.randn(COUNT, 1).double()
    problem = Problem(nn.Linear(4, 1, bias=False).double(), nn.MSELoss(), (x, y))
    with torch.no_grad():
        problem.model.weight.copy_(torch.linalg.lstsq(x, y).solution.T)
    hessian = 2 * x.T @ x / COUNT
    options = {"relative_error": 1e-9, "budget": 300}
    check(lambda seed: trace_from_perturbations(problem, 0.1, seed=seed, **options), float(hessian.trace()))
    check(
        lambda seed: squared_norm_from_perturbations(problem, 0.1, seed=seed, **options),
        float(hessian.square().sum()),
    )


def test_kinks():
    problem = problem_of("relu")
    exact = kinks_of_two_layers(problem, 0.1)
    check(lambda seed: kink_term(problem, 0.1, relative_error=1e-9, budget=30, seed=seed), exact)
