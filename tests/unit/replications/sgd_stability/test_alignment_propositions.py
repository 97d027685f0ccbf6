"""Propositions 1 and 2 on small cases with known answers."""

from replications.sgd_stability import alignment_propositions
from tests.unit.replications.sgd_stability.samples import generator


def test_linear_networks_have_the_alignment_that_gaussian_moments_give() -> None:
    run = alignment_propositions.Parameters(dimension=3, examples=200_000, targets=4)
    found = alignment_propositions.linear_alignment(run, generator(), generator(1))
    assert found["formula_error"] < 0.03
    assert found["mu_formula_smallest"] >= 1


def test_no_direction_of_random_features_has_less_alignment_than_the_eigenvalue_says() -> None:
    run = alignment_propositions.Parameters(model="random_features", dimension=4, examples=2000, features=20)
    found = alignment_propositions.random_feature_alignment(run, generator(), generator(1))
    assert 0 < found["mu_smallest"] <= found["mu_typical"]
