"""Sharpness and weighted norms of two-layer networks."""

import math

import pandas as pd
import pytest

from replications.sgd_stability import weighted_norm
from replications.sgd_stability.analysis.weighted_norm import metrics as weighted_norm_metrics
from replications.sgd_stability.shared.two_layer_relu import Network, sphere
from tests.unit.replications.sgd_stability.samples import generator, normal, records


def test_a_neuron_without_curvature_is_found_at_n_equal_d_and_none_at_many_examples() -> None:
    inputs = sphere((6, 6), generator())
    assert weighted_norm.least_curved_neuron(inputs, 2, 10, generator(1))["ratio"] == 0
    many = weighted_norm.least_curved_neuron(sphere((600, 6), generator()), 2, 50, generator(1))
    assert 0.2 < many["ratio"] < 0.5


def test_the_most_curved_neuron_of_one_input_points_at_it_and_of_many_is_near_a_half() -> None:
    one = sphere((1, 6), generator())
    assert weighted_norm.most_curved_neuron(one, 3) == pytest.approx(6)
    assert 0.5 < weighted_norm.most_curved_neuron(sphere((6000, 6), generator()), 20) < 0.6


def test_path_norm_inequality_is_strict_as_drawn_and_an_equality_when_balanced() -> None:
    found = weighted_norm.path_slack(Network(normal(5), normal(5, 4, seed=1)), 4.0)
    assert found["slack"] > 1e-3
    assert abs(found["balanced_slack"]) < 1e-12


def test_the_tenfold_ratio_is_that_of_a_network_of_ten_times_the_weights() -> None:
    run = weighted_norm.Parameters(seed=0, dimension=4, width=5, rescalings=(0.5, 2.0))
    network, inputs = Network(normal(5), normal(5, 4, seed=1)), sphere((20, 4), generator())
    for row in weighted_norm.curvature_over_norms(run, network, inputs):
        one = network.rescaled(row["rescaling"])
        tenfold = Network(10 * one.outer, 10 * one.inner)
        trace = tenfold.gradients(inputs).square().sum() / len(inputs)
        assert row["rooted_ratio_tenfold"] == pytest.approx(float(trace / tenfold.squared_norm(4).sqrt()))


def test_weighted_norm_gives_one_row_with_every_measure() -> None:
    table = records(weighted_norm, seeds=1, dimension=6, width=4, restarts=2, descents=10)
    row = weighted_norm_metrics(table).iloc[0]
    assert 0 < row["trace_smallest"] < row["trace_largest"]
    assert row["worst_neuron_at_d"] == 0
    assert row["rooted_growth"] == pytest.approx(10)


def test_theorem_2_is_judged_from_its_own_number_of_examples_on_with_the_neurons_of_the_search() -> None:
    common = {"run": "r", "dimension": 8, "rooted_ratio": 1.0, "rooted_ratio_tenfold": 10.0, "unpaired_ratio": 1.0}
    ratios = {"trace_ratio": 0.4, "frobenius_ratio": 0.3, "spectral_ratio": 0.2}
    rows = []
    for count, low, high in ((56, 0.001, 9.0), (57, 0.2, 0.9), (8 * 57, 0.25, 0.8)):  # N(8, 0.05) is 57
        here = {**common, "examples": count, "per_dimension": count / 8}
        searched = {"ratio": low, "inner": low + 0.01, "inner_largest": high}
        rows += [{**here, "part": "curvature", **ratios}, {**here, "part": "worst_neuron", **searched}]
    found = weighted_norm_metrics(
        pd.DataFrame([*rows, {**common, "part": "path", "slack": 1.0, "balanced_slack": 0.0}])
    )
    row = found.loc["r"]
    assert row[["trace_least", "frobenius_least", "spectral_least"]].tolist() == pytest.approx([0.2, 0.21, 0.2])
    assert row[["trace_most", "frobenius_most", "spectral_most"]].tolist() == pytest.approx([0.9, 0.9, 0.8])


def test_the_mean_log_ratio_in_the_premise_leaves_out_fewer_examples() -> None:
    common = {"run": "r", "dimension": 8, "rooted_ratio": 1.0, "rooted_ratio_tenfold": 10.0, "unpaired_ratio": 1.0}
    common |= {"trace_ratio": 1.0, "spectral_ratio": 1.0, "part": "curvature"}
    rows = [
        {**common, "examples": count, "per_dimension": count / 8, "frobenius_ratio": ratio}
        for count, ratio in ((32, 100.0), (57, 1.0), (640, math.e))  # 32 = 4d; N(8, 0.05) is 57
    ]
    neuron = {**rows[-1], "part": "worst_neuron", "ratio": 0.3, "inner": 0.4, "inner_largest": 0.5}
    path = {**common, "part": "path", "slack": 1.0, "balanced_slack": 0.0}
    row = weighted_norm_metrics(pd.DataFrame([*rows, neuron, path])).loc["r"]
    assert row["frobenius_log_ratio_in_premise"] == pytest.approx(0.5)
    assert row["frobenius_log_ratio"] == pytest.approx((math.log(100) + 1) / 3)
