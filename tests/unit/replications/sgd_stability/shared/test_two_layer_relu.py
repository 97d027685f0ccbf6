"""Outputs, gradients and traces against automatic differentiation."""

import pytest
import torch

from replications.sgd_stability.shared.squared_error import squared_error
from replications.sgd_stability.shared.two_layer_relu import Network, sphere
from tests.unit.replications.sgd_stability.samples import generator, normal


def test_gradients_and_outputs_of_two_layer_networks_are_those_of_autograd() -> None:
    outer, inner, inputs = normal(4), normal(4, 3, seed=1), normal(6, 3, seed=2)

    def outputs(outer: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
        return (inputs @ inner.T).relu() @ outer

    variables = (outer.requires_grad_(), inner.requires_grad_())
    rows = [torch.autograd.grad(outputs(*variables)[i], variables) for i in range(6)]
    expected = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
    outer, inner = outer.detach(), inner.detach()
    network = Network(outer, inner)
    torch.testing.assert_close(network.gradients(inputs), expected)
    torch.testing.assert_close(network.rescaled(3.0).outputs(inputs), outputs(outer, inner))
    torch.testing.assert_close(network.outputs(inputs), outputs(outer, inner))


def test_gradients_of_the_loss_are_those_of_autograd() -> None:
    network, inputs, targets = Network(normal(4), normal(4, 3, seed=1)), normal(6, 3, seed=2), normal(6, seed=3)
    variables = Network(*(weights.requires_grad_() for weights in network))
    expected = torch.autograd.grad(squared_error(variables.outputs(inputs), targets), variables)
    torch.testing.assert_close(tuple(Network(*expected)), tuple(network.loss_gradients(inputs, targets)))


def test_the_mean_trace_is_half_the_squared_weighted_norm() -> None:
    network = Network(normal(5), normal(5, 6, seed=1))
    norms = network.gradients(sphere((40_000, 6), generator(2))).square().sum(1)
    error = float(norms.std() / 200)
    assert float(norms.mean()) == pytest.approx(float(network.squared_norm(6)) / 2, abs=4 * error)
