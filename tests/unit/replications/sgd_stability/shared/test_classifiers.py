"""Networks trained together against ordinary ones."""

import pytest
import torch

from common.training import Standardise
from replications.sgd_stability.shared.classifiers import (
    Members,
    error_probability,
    example_losses,
    flat,
    hardest_first,
    loss_and_error,
    set_flat,
    untrained,
)
from tests.unit.replications.images import random_images


def test_members_trained_together_take_the_gradients_of_ordinary_networks() -> None:
    data = random_images(1, 8)
    standardise = Standardise.by_shares(*data.train.channel_statistics())
    images = standardise(data.train.inputs)
    mean = images.mean((0, 2, 3))
    assert torch.allclose(mean, torch.zeros(1), atol=1e-4)
    members = Members(untrained("fully_connected", 64, (6,)), [torch.Generator().manual_seed(s) for s in range(2)])
    losses = members.losses_and_gradients(images.expand(2, -1, -1, -1, -1), data.train.targets.expand(2, -1))
    network = members.module(1)
    loss = torch.nn.functional.cross_entropy(network(images), data.train.targets)
    torch.autograd.backward(loss)
    own = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])  # type: ignore[union-attr]
    assert float(losses[1]) == pytest.approx(float(loss.detach()), rel=1e-5)
    assert torch.allclose(members.gradients[1], own, atol=1e-6)


def test_losses_of_a_network_agree_however_they_are_asked_for() -> None:
    data = random_images(1, 8)
    standardise = Standardise.by_shares(*data.train.channel_statistics())
    network = untrained("fully_connected", 64, (6,))
    set_flat(network, torch.linspace(-1, 1, 460))
    assert torch.equal(flat(network), torch.linspace(-1, 1, 460))
    single = example_losses(network, data.train, standardise)
    loss, _ = loss_and_error(network, data.train, standardise)
    assert float(single.mean()) == pytest.approx(loss, rel=1e-5)
    chosen = torch.softmax(network(standardise(data.train.inputs)), 1).gather(1, data.train.targets[:, None])
    wrong = 1 - float(chosen.detach().mean())
    assert error_probability(network, data.train, standardise) == pytest.approx(wrong, rel=1e-4)
    ordered = hardest_first(network, data.train, standardise)
    assert (example_losses(network, ordered, standardise).diff() <= 1e-6).all()


def test_weights_are_read_in_the_order_of_the_parameters_whatever_their_order_in_memory() -> None:
    network = torch.nn.Conv2d(2, 3, 2)
    expected = flat(network).clone()
    moved = network.to(memory_format=torch.channels_last)
    assert not moved.weight.is_contiguous()
    assert torch.equal(flat(moved), expected)
    set_flat(moved, expected + 1)
    assert torch.equal(flat(moved), expected + 1)
