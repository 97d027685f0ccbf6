"""Theorem 1 and the bounds that it starts from, on values worked out by hand."""

import math

import pytest
import torch

from common.bounds.hessian_trace import (
    catoni_bound,
    gaussian_divergence,
    hessian_bound,
    mcallester_bound,
    norm_product,
)


def test_divergence_of_two_gaussians_is_that_of_torch() -> None:
    shift, sigma = torch.tensor([0.3, -0.4, 1.2]), 0.7
    one, other = (torch.distributions.Normal(mean, sigma) for mean in (shift, torch.zeros(3)))
    expected = torch.distributions.kl_divergence(one, other).sum()
    torch.testing.assert_close(gaussian_divergence(shift.norm(), sigma), expected)


def test_theorem_1_is_loss_plus_root_and_takes_a_negative_trace_for_none() -> None:
    constants = {"distance": 3.0, "limit": 4.0, "examples": 36}
    assert float(hessian_bound(0.5, trace=1.0, **constants)) == pytest.approx(0.5 + 1.0)
    assert float(hessian_bound(0.5, trace=1.0, epsilon=0.1, **constants)) == pytest.approx(1.1 * 1.5)
    assert float(hessian_bound(0.5, trace=-1.0, **constants)) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="epsilon"):
        hessian_bound(0.5, trace=1.0, epsilon=-0.1, **constants)


def test_theorem_1_is_the_least_of_catoni_s_bound_over_sigma_up_to_its_constant() -> None:
    """With L̂_Q = L̂ + σ²α/2 the minimum over σ is L̂/β + √(Cαr²/(2n(1 − β)))/β."""
    alpha, distance, limit, examples, beta = 2.0, 1.5, 4.0, 1000, 0.5
    sigmas = torch.logspace(-3, 1, 20_001, dtype=torch.float64)
    noisy = sigmas.square() * alpha / 2
    values = catoni_bound(
        noisy, gaussian_divergence(distance, sigmas), limit=limit, examples=examples, delta=1 - 1e-12, beta=beta
    )
    expected = math.sqrt(limit * alpha * distance**2 / (2 * examples * (1 - beta))) / beta
    assert float(values.min()) == pytest.approx(expected, rel=1e-4)


def test_mcallester_s_bound_on_numbers() -> None:
    value = mcallester_bound(0.25, 3 - math.log(4 * 100 / 0.1), limit=2.0, examples=100, delta=0.1)
    assert float(value) == pytest.approx(0.25 + 2 * math.sqrt(3 / 100))


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_a_delta_that_is_no_probability_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        mcallester_bound(0.1, 1.0, limit=1.0, examples=10, delta=delta)
    with pytest.raises(ValueError, match="delta"):
        catoni_bound(0.1, 1.0, limit=1.0, examples=10, delta=delta, beta=0.5)


def test_beta_must_lie_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="beta"):
        catoni_bound(0.1, 1.0, limit=1.0, examples=10, delta=0.1, beta=torch.tensor([0.5, 1.0]))


def test_both_bounds_hold_for_the_mean_of_coins() -> None:
    """Posterior equal to the prior: the bounds must fail in at most δ of many draws of n coins."""
    torch.manual_seed(0)
    losses = (torch.rand(2000, 20) < 0.5).float().mean(1)
    for bound in (
        mcallester_bound(losses, 0.0, limit=1.0, examples=20, delta=0.1),
        catoni_bound(losses, 0.0, limit=1.0, examples=20, delta=0.1, beta=0.5),
    ):
        assert float((bound < 0.5).float().mean()) <= 0.1


def test_norm_product_multiplies_norms_and_adds_ranks() -> None:
    spectral, frobenius = torch.tensor([2.0, 3.0]), torch.tensor([4.0, 3.0])
    assert float(norm_product(spectral, frobenius, examples=5)) == pytest.approx(6.0)
    deeper = norm_product(torch.tensor([2.0, 3.0, 2.0]), torch.tensor([4.0, 3.0, 4.0]), examples=5)
    assert float(deeper) == pytest.approx(12 * math.sqrt(9 / 5))
