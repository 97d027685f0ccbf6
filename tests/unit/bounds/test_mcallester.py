"""McAllester's bound in its forms, and Donsker and Varadhan's formula."""

import math

import pytest
import torch

from common.bounds.mcallester import (
    fixed_complexity,
    maurer_complexity,
    optimistic_complexity,
    worst_log_moment,
)
from common.bounds.variational import (
    QuadraticCase,
    finite_divergence,
    gibbs,
    log_expectation,
    variational_objective,
)

DIVERGENCES = torch.tensor([0.0, 1.0, 30.0, 1000.0], dtype=torch.float64)
SETTING = {"examples": 500, "delta": 0.05}


def drawn(seed: int, points: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    values = torch.randn(points, generator=source, dtype=torch.float64)
    return values, torch.softmax(torch.randn(points, generator=source, dtype=torch.float64), -1)


def test_no_fixed_scale_undercuts_the_optimistic_bound_and_its_best_scale_attains_it() -> None:
    optimistic = optimistic_complexity(DIVERGENCES, **SETTING)
    for scale in torch.logspace(0, 4, 60).tolist():
        assert (fixed_complexity(DIVERGENCES, scale=scale, **SETTING) >= optimistic - 1e-12).all()
    for divergence, value in zip(DIVERGENCES, optimistic, strict=True):
        best = math.sqrt(8 * 500 * (float(divergence) - math.log(0.05)))
        assert float(fixed_complexity(divergence, scale=best, **SETTING)) == pytest.approx(float(value))


def test_maurers_form_costs_more_than_the_optimistic_one_but_not_much() -> None:
    optimistic = optimistic_complexity(DIVERGENCES, **SETTING)
    ratio = maurer_complexity(DIVERGENCES, **SETTING) / optimistic
    assert (ratio > 1).all()
    assert float(ratio[-1]) < 1.05


def test_the_formula_holds_with_equality_at_the_gibbs_distribution_only() -> None:
    values, prior = drawn(0)
    target = log_expectation(values, prior)
    assert float(variational_objective(gibbs(values, prior), values, prior)) == pytest.approx(float(target))
    for seed in range(20):
        _, other = drawn(seed + 1)
        short = target - variational_objective(other, values, prior)
        assert float(short) == pytest.approx(float(finite_divergence(other, gibbs(values, prior))))
        assert float(short) > 0


def test_the_divergence_of_a_point_mass_is_the_logarithm_of_its_prior() -> None:
    prior = torch.tensor([0.2, 0.8], dtype=torch.float64)
    point = torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert float(finite_divergence(point, prior)) == pytest.approx(math.log(5))


def test_the_gaussian_case_agrees_with_numerical_integration() -> None:
    case = QuadraticCase(slope=0.7, bend=0.4, mean=-0.3, variance=1.3)
    x = torch.linspace(-30, 30, 200_001, dtype=torch.float64)
    density = (-(x + 0.3).square() / 2.6).exp() / math.sqrt(2.6 * math.pi)
    tilted = density * (0.7 * x - 0.2 * x.square()).exp()
    assert case.log_expectation() == pytest.approx(float(torch.trapezoid(tilted, x).log()), abs=1e-9)
    mean, variance = case.gibbs()
    weights = tilted / torch.trapezoid(tilted, x)
    assert mean == pytest.approx(float(torch.trapezoid(weights * x, x)), abs=1e-9)
    assert variance == pytest.approx(float(torch.trapezoid(weights * (x - mean).square(), x)), abs=1e-9)
    assert case.objective(mean, variance) == pytest.approx(case.log_expectation())
    assert case.objective(mean + 0.1, variance) < case.log_expectation()
    with pytest.raises(ValueError, match="infinite"):
        QuadraticCase(slope=0.0, bend=-1.0, variance=1.0)


def test_the_worst_moment_says_whether_some_posterior_breaks_the_bound() -> None:
    """Against a search over posteriors: point masses and Gibbs distributions."""
    source = torch.Generator().manual_seed(3)
    examples, delta = 40, 0.3
    prior = torch.full((12,), 1 / 12, dtype=torch.float64)
    scales = torch.linspace(1, 120, 400, dtype=torch.float64)
    broken = 0
    for _ in range(60):
        gaps = 0.16 * torch.randn(12, generator=source, dtype=torch.float64) * 0.6
        exceeds = float(worst_log_moment(gaps, prior, scales, examples=examples).max()) > -math.log(delta)
        posteriors = torch.stack([gibbs(scale * gaps, prior) for scale in scales])
        gap = (posteriors * gaps).sum(-1)
        allowed = optimistic_complexity(finite_divergence(posteriors, prior), examples=examples, delta=delta)
        assert exceeds == bool((gap > allowed).any())
        broken += exceeds
    assert 0 < broken < 60
