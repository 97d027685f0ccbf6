"""Gradients and trace of two-layer networks, in blocks and in closed form."""

import pytest
import torch

from replications.sgd_stability.flat_interpolants import BLOCK, loss_gradients, trace_of_g
from replications.sgd_stability.shared.two_layer_relu import Network
from tests.unit.replications.sgd_stability.samples import normal


@pytest.mark.parametrize("examples", [7, BLOCK, 2 * BLOCK + 3])
def test_gradients_in_blocks_are_those_of_all_examples_at_once(examples: int):
    network = Network(normal(3, 5), normal(3, 5, 4, seed=1))
    inputs, targets = normal(3, examples, 4, seed=2), normal(3, examples, seed=3)
    found, expected = loss_gradients(network, inputs, targets), network.loss_gradients(inputs, targets)
    torch.testing.assert_close(found.outer, expected.outer, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.inner, expected.inner, rtol=1e-10, atol=1e-12)


def test_the_trace_is_the_mean_square_of_the_gradients():
    network, inputs = Network(normal(2, 5), normal(2, 5, 4, seed=1)), normal(2, 9, 4, seed=2)
    expected = network.gradients(inputs).square().sum(2).mean(1)
    torch.testing.assert_close(trace_of_g(network, inputs), expected, rtol=1e-12, atol=0)
