"""Which constructions interpolate, and which is flattest."""

import math

import pytest
import torch

from common.hessian import GGN, Problem, dense
from replications.sgd_stability.shared.memorising_networks import (
    corrected_memorising,
    generalising,
    hessian_trace,
    least_trace,
    parity_problem,
    printed_memorising,
    violating_pairs,
)
from replications.sgd_stability.shared.two_layer_relu import Network
from tests.unit.replications.sgd_stability.samples import generator, normal


def test_memorising_constructions_interpolate_and_attain_the_least_trace_as_stated() -> None:
    inputs, targets = parity_problem(100, 30, generator(3))
    assert len(torch.unique(inputs, dim=0)) == 100
    corrected = corrected_memorising(inputs, targets)
    torch.testing.assert_close(corrected.outputs(inputs), targets)
    assert least_trace(inputs, targets) == pytest.approx(4 * math.sqrt(31))
    assert hessian_trace(corrected, inputs) == pytest.approx(4 * math.sqrt(31))
    four = generalising(30, 31**0.25)
    torch.testing.assert_close(four.outputs(inputs), targets)
    assert hessian_trace(four, inputs) == pytest.approx(4 * math.sqrt(31))
    assert hessian_trace(generalising(30, 901**0.25), inputs) == pytest.approx(62.1, abs=0.05)


def test_the_printed_memorising_network_fails_exactly_where_pairs_violate_it() -> None:
    for dimension in (30, 100):
        inputs, targets = parity_problem(100, dimension, generator(5))
        network = printed_memorising(inputs, targets)
        fails = float((network.outputs(inputs) - targets).abs().max()) > 1e-9
        assert fails == (violating_pairs(inputs) > 0) == (dimension == 30)
    assert hessian_trace(network, inputs) == pytest.approx(58.08, abs=0.01)


def test_the_trace_is_that_of_the_ggn() -> None:
    inputs, targets = parity_problem(10, 5, generator())
    outer, inner = normal(4), normal(4, 6, seed=1)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 4, bias=False), torch.nn.ReLU(), torch.nn.Linear(4, 1, bias=False)
    ).double()
    model[0].weight.data, model[2].weight.data = inner.clone(), outer[None].clone()
    problem = Problem(model, torch.nn.MSELoss(), (inputs, targets[:, None]))
    expected = float(dense(GGN(problem)).trace())
    assert hessian_trace(Network(outer, inner), inputs) == pytest.approx(expected)
