"""Structure of noise, weighted norms, rescaling and alignment, on small cases with known answers."""

import math

import pandas as pd
import pytest
import torch

from replications.sgd_stability import alignment_propositions, noise_structure, rescaling, weighted_norm
from replications.sgd_stability.analysis.noise_structure import metrics as noise_structure_metrics
from replications.sgd_stability.analysis.rescaling import metrics as rescaling_metrics
from replications.sgd_stability.analysis.weighted_norm import metrics as weighted_norm_metrics
from replications.sgd_stability.shared.noise_thresholds import (
    critical_scale,
    geometry_aware_load,
)
from replications.sgd_stability.shared.two_layer_relu import Network, sphere
from tests.context import MemoryContext
from tests.unit.replications.sgd_stability.samples import generator, normal


def test_the_lectures_conditions_are_necessary_and_attained_where_every_step_is_one() -> None:
    run = noise_structure.Parameters(parameters=20, examples=8, batch_size=2, trajectories=200)
    context = MemoryContext()
    noise_structure.run([run], context)
    table = noise_structure_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert 0 < table["geometry_condition"] <= 1
    assert 0 < table["isotropic_condition"] <= 1
    flat = torch.ones(1, 5, dtype=torch.float64)
    assert float(critical_scale(flat, geometry_aware_load, 5)) == pytest.approx(1)  # η‖H‖_F = √5 = √B


def test_a_neuron_without_curvature_is_found_at_n_equal_d_and_none_at_many_examples() -> None:
    inputs = sphere((6, 6), generator())
    assert weighted_norm.least_curved_neuron(inputs, 2, 10, generator(1))["ratio"] == 0
    many = weighted_norm.least_curved_neuron(sphere((600, 6), generator()), 2, 50, generator(1))
    assert 0.2 < many["ratio"] < 0.5


def test_path_norm_inequality_is_strict_as_drawn_and_an_equality_when_balanced() -> None:
    found = weighted_norm.path_slack(Network(normal(5), normal(5, 4, seed=1)), 4.0)
    assert found["slack"] > 1e-3
    assert abs(found["balanced_slack"]) < 1e-12


def test_weighted_norm_gives_one_row_with_every_measure() -> None:
    context = MemoryContext()
    weighted_norm.run([weighted_norm.Parameters(dimension=6, width=4, restarts=2, descents=10)], context)
    row = weighted_norm_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert 0 < row["trace_smallest"] < row["trace_largest"]
    assert row["worst_neuron_at_d"] == 0
    assert row["rooted_growth"] == pytest.approx(10)


@pytest.mark.parametrize("model", ["product", "relu", "tanh"])
def test_rescaling_reaches_an_interpolating_minimum_and_recovers_its_curvature(model: str) -> None:
    run = rescaling.Parameters(model=model, factors=(0.1, 1.0, 10.0), draws=32, radii=(1e-4, 1e-3, 1e-2), seed=1)
    context = MemoryContext()
    rescaling.run([run], context)
    row = rescaling_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert row["regime_reached"]
    assert row["largest_recovered"] == pytest.approx(1, abs=0.01)
    if model == "product":
        assert row["toy_error"] < 1e-12
        assert row["log_growth"] == pytest.approx(math.log(100.01 / 2))
        assert row["trace_order"] == pytest.approx(2, abs=0.01)
        assert row["largest_order"] == pytest.approx(1, abs=0.02)
    if model == "relu":
        assert row["log_growth"] > 2
        assert row["function_change"] < 1e-10


def test_linear_networks_have_the_alignment_that_gaussian_moments_give() -> None:
    run = alignment_propositions.Parameters(dimension=3, examples=200_000, targets=4)
    found = alignment_propositions.linear_alignment(run, generator(), generator(1))
    assert found["formula_error"] < 0.03
    assert found["mu_formula_smallest"] >= 1


def test_no_direction_of_random_features_has_less_alignment_than_the_eigenvalue_says() -> None:
    run = alignment_propositions.Parameters(model="random_features", dimension=4, examples=2000, features=20)
    found = alignment_propositions.random_feature_alignment(run, generator(), generator(1))
    assert 0 < found["mu_smallest"] <= found["mu_typical"]
