"""Losses on a plane through the weights."""

import pytest
import torch

from replications.sgd_stability.shared.plane_losses import losses_on_plane


def test_losses_on_a_plane_are_those_of_the_shifted_network_which_stays_as_it_was() -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    images, targets = torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    before = [parameter.clone() for parameter in network.parameters()]
    directions = [torch.ones(3, 4), torch.zeros(3)], [torch.eye(3, 4), torch.zeros(3)]
    losses = losses_on_plane(network, directions, [(0.0, 0.0), (0.5, -2.0)], images, targets)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    with torch.no_grad():
        network[1].weight.add_(0.5 * directions[0][0] - 2 * directions[1][0])
        moved = torch.nn.functional.cross_entropy(network(images), targets)
    assert losses[1] == pytest.approx(float(moved), rel=1e-5)
    assert losses[0] != pytest.approx(losses[1])
