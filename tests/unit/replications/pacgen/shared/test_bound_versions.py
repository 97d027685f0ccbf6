"""What each correction of a bound costs, and the perturbations it speaks of."""

import math

import pytest
import torch

from replications.pacgen.shared.bound_versions import Case, Side, all_versions


def case() -> Case:
    weights = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64)
    curvature = torch.tensor([[3.0, 1.0, 0.2]], dtype=torch.float64)
    side = Side(torch.tensor([0.4], dtype=torch.float64), curvature, torch.tensor([2.0], dtype=torch.float64))
    sides = {"cross_entropy": side, "probability": side}
    kappa = 0.1 * weights.abs() + 0.1
    return Case(weights, kappa, sides, eta=20.0, examples=100, delta=0.05, prior_range=4.0)


def test_every_version_costs_what_its_correction_says():
    bounds = {(bound.name, bound.version): bound for bound in all_versions(case())}
    value = {key: float(bound.value) for key, bound in bounds.items()}
    term = {key: {name: float(part) for name, part in bound.terms.items()} for key, bound in bounds.items()}
    assert value["lemma6", "fixed_prior"] > value["lemma6", "printed"]
    assert value["lemma6", "tightened"] < value["lemma6", "corrected"]
    plain = term["lemma8", "levels"]["divergence"] * case().eta
    spread = float(bounds["lemma8", "levels"].sigma.square().sum() / case().weights.square().sum()) / 2
    assert term["lemma8", "divergence"]["divergence"] * case().eta == pytest.approx(2 * (plain + spread + 1))
    assert value["lemma8", "tightened"] < value["lemma8", "corrected"]
    printed, right = (term["theorem7", version]["divergence"] for version in ("printed", "constant"))
    assert right / printed == pytest.approx((1 + math.e) / (1 + 1 / math.e))
    assert value["theorem7", "tightened"] < value["theorem7", "corrected"]


def test_perturbations_follow_the_distribution_of_their_bound():
    bounds = {(bound.name, bound.version): bound for bound in all_versions(case())}
    generator = torch.Generator().manual_seed(0)
    units = 2 * torch.rand(100_000, 1, 3, generator=generator, dtype=torch.float64) - 1
    uniform, gaussian = bounds["lemma6", "printed"], bounds["lemma8", "levels"]
    drawn = uniform.draw(case().kappa, units)
    torch.testing.assert_close(drawn.square().mean(0), uniform.sigma.square() / 3, rtol=0.02, atol=0)
    drawn = gaussian.draw(case().kappa, units)
    assert bool((drawn.abs() <= case().kappa).all())
    inside = (drawn.abs() < gaussian.sigma).double().mean(0)
    reach = torch.erf(case().kappa / (math.sqrt(2) * gaussian.sigma))
    torch.testing.assert_close(inside, math.erf(1 / math.sqrt(2)) / reach, rtol=0.02, atol=0)
