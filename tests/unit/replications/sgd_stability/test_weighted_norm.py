"""Sharpness and weighted norms of two-layer networks."""

import pandas as pd
import pytest

from replications.sgd_stability import weighted_norm
from replications.sgd_stability.analysis.weighted_norm import metrics as weighted_norm_metrics
from replications.sgd_stability.shared.two_layer_relu import Network, sphere
from tests.context import MemoryContext
from tests.unit.replications.sgd_stability.samples import generator, normal


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
