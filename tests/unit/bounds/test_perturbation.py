import math

import pytest
import torch

from common.bounds.pac_bayes import hoeffding_complexity
from common.bounds.perturbation import (
    gaussian_bound,
    gaussian_divergence,
    gaussian_levels,
    gaussian_sharpness,
    truncated_gaussian_divergence,
    uniform_bound,
    uniform_levels,
    uniform_sharpness,
)

CURVATURE = torch.tensor([3.0, 12.0, 0.5], dtype=torch.float64)
KAPPA = torch.tensor([5.0, 5.0, 0.2], dtype=torch.float64)
TAU = torch.tensor([6.0, 7.0, 1.0], dtype=torch.float64)
RHO = 2.0


def right_hand_side_12(sigma: torch.Tensor, eta: float) -> torch.Tensor:
    """Equation (12) without the loss, written out."""
    root = math.sqrt(len(sigma))
    quadratic = (CURVATURE * sigma**2).sum() / 6 + RHO * root / 18 * (KAPPA * sigma**2).sum()
    return quadratic + ((TAU / sigma).log().sum() + math.log(20)) / eta + eta / 200


def test_uniform_levels_are_equation_14_worked_by_hand():
    sigma = uniform_levels(CURVATURE, RHO, KAPPA, eta=10.0)
    first = 1 / math.sqrt(10 * (3 / 3 + 2 * math.sqrt(3) * 5 / 9))
    assert float(sigma[0]) == pytest.approx(first)
    assert float(sigma[2]) == 0.2  # the cap
    flat = uniform_levels(torch.zeros(2), 0.0, torch.tensor([0.1, 0.3]), eta=5.0)
    assert flat.tolist() == pytest.approx([0.1, 0.3])


def test_uniform_levels_minimise_the_bound_12_up_to_the_cap():
    sigma = uniform_levels(CURVATURE, RHO, KAPPA, eta=10.0)
    best = right_hand_side_12(sigma, 10.0)
    for index in range(3):
        for factor in (0.9, 0.99, 1.01, 1.1):
            other = sigma.clone()
            other[index] *= factor
            if other[index] <= KAPPA[index]:
                assert right_hand_side_12(other, 10.0) > best


def test_bound_12_is_the_printed_sum_and_13_lies_above_it():
    loss, sigma = torch.tensor(0.25, dtype=torch.float64), uniform_levels(CURVATURE, RHO, KAPPA, eta=10.0)
    constants = {"eta": 10.0, "examples": 100, "delta": 0.05}
    tight = uniform_bound(loss, TAU, sigma, **constants, sharpness=uniform_sharpness(CURVATURE, RHO, KAPPA, sigma))
    assert float(tight) == pytest.approx(0.25 + float(right_hand_side_12(sigma, 10.0)))
    loose = uniform_bound(loss, TAU, sigma, **constants)
    by_hand = 0.25 + (1.5 + float((TAU / sigma).log().sum()) + math.log(20)) / 10 + 10 / 200
    assert float(loose) == pytest.approx(by_hand)
    assert loose > tight


def test_bounds_12_and_13_agree_where_no_cap_holds():
    kappa = torch.full((3,), 50.0, dtype=torch.float64)
    sigma = uniform_levels(CURVATURE, RHO, kappa, eta=10.0)
    assert bool((sigma < kappa).all())
    assert float(uniform_sharpness(CURVATURE, RHO, kappa, sigma)) == pytest.approx(3 / 20)


def test_gaussian_levels_minimise_the_bound_19():
    tau, eta, kappa = torch.tensor(4.0, dtype=torch.float64), 10.0, torch.full((3,), 50.0, dtype=torch.float64)

    def bound_19(sigma: torch.Tensor) -> torch.Tensor:
        first = (CURVATURE * sigma**2).sum() / 2 + RHO * math.sqrt(3) / 6 * (kappa * sigma**2).sum()
        divergence = 3 * tau.log() - sigma.square().log().sum() - 3 + sigma.square().sum() / tau + 1
        return first + (divergence + 2 * math.log(20)) / (2 * eta)

    sigma = gaussian_levels(CURVATURE, RHO, kappa, tau=tau, eta=eta)
    printed = gaussian_levels(CURVATURE, RHO, kappa, tau=tau, eta=eta, as_printed=True)
    for factor in (0.99, 1.01):
        assert bound_19(sigma * factor) > bound_19(sigma)
    assert bound_19(printed) > bound_19(sigma)  # (21) without η in the ρ term is no minimiser
    value = gaussian_bound(torch.tensor(0.0, dtype=torch.float64), sigma, tau=tau, eta=eta, examples=100, delta=0.05)
    assert float(value) == pytest.approx(float(bound_19(sigma)) + eta / 200)


def test_corrected_truncation_keeps_half_of_the_mass_and_the_printed_one_does_not():
    size, kappa = 50, torch.ones(50, dtype=torch.float64)
    settings = {"tau": torch.tensor(1e12, dtype=torch.float64), "eta": 1e-9}
    for as_printed, keeps in ((False, True), (True, False)):
        sigma = gaussian_levels(torch.zeros(size, dtype=torch.float64), 0.0, kappa, **settings, as_printed=as_printed)
        inside = torch.erf(kappa / (math.sqrt(2) * sigma)).prod()
        assert (float(inside) >= 0.5) is keeps


@pytest.mark.parametrize("wrong", [{"eta": 0.0}, {"examples": 0}, {"delta": 1.0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="need eta > 0"):
        hoeffding_complexity(1.0, **{"eta": 1.0, "examples": 10, "delta": 0.1, **wrong})


def test_divergence_before_truncation_is_that_of_gaussians():
    weights, sigma = torch.tensor([0.3, -1.0], dtype=torch.float64), torch.tensor([0.5, 0.2], dtype=torch.float64)
    tau = torch.tensor(2.0, dtype=torch.float64)
    own = torch.distributions.Normal(weights, sigma)
    prior = torch.distributions.Normal(torch.zeros(2, dtype=torch.float64), math.sqrt(2.0))
    expected = torch.distributions.kl_divergence(own, prior).sum()
    assert float(gaussian_divergence(weights, sigma, tau=tau)) == pytest.approx(float(expected))


@pytest.mark.parametrize("kappa", [0.1, 0.5, 4.0])
def test_truncated_divergence_is_the_integral_that_defines_it(kappa):
    weight, sigma, tau = 0.7, 0.4, 1.5
    u = torch.linspace(-kappa, kappa, 200_001, dtype=torch.float64)
    density = (-u.square() / (2 * sigma**2)).exp()
    density /= torch.trapezoid(density, u)
    prior = torch.distributions.Normal(torch.tensor(0.0, dtype=torch.float64), math.sqrt(tau))
    expected = torch.trapezoid(density * (density.log() - prior.log_prob(weight + u)), u)
    arguments = (torch.tensor([value], dtype=torch.float64) for value in (weight, sigma, kappa))
    value = truncated_gaussian_divergence(*arguments, tau=torch.tensor(tau, dtype=torch.float64))
    assert float(value) == pytest.approx(float(expected), rel=1e-6)


def test_gaussian_sharpness_is_the_sum_in_equation_19():
    sigma = torch.tensor([0.1, 0.2, 0.05], dtype=torch.float64)
    by_hand = (CURVATURE * sigma**2).sum() / 2 + RHO * math.sqrt(3) / 6 * (KAPPA * sigma**2).sum()
    assert float(gaussian_sharpness(CURVATURE, RHO, KAPPA, sigma)) == pytest.approx(float(by_hand))
