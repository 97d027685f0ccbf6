"""Alignment factors against the toolkit, and projected images."""

from typing import Any

import pytest
import torch

from common.hessian import Problem, alignment
from replications.sgd_stability.shared.linearised_sgd import alignment as alignment_of_trajectories
from replications.sgd_stability.shared.parity import parity
from replications.sgd_stability.shared.scalar_networks import (
    draw_images,
    draw_networks,
    member_hessians,
    parameter_count,
    two_class_targets,
)
from replications.sgd_stability.shared.squared_error import squared_error
from tests.unit.replications.images import random_images


@pytest.fixture
def networks() -> tuple[Any, Any]:
    sources = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    images = draw_images(random_images(1, 4), "mnist", 12, sources)
    return draw_networks(7, 2, images, sources), images


def test_factors_from_the_closed_form_kernel_are_those_of_the_toolkit(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    for member, layered in enumerate(member_hessians(ensemble, images)):
        found = layered.ntk().alignment()
        data = images.inputs[member].double(), images.targets[member].double()
        expected = alignment(Problem(ensemble.module(member).double(), squared_error, data))
        for name in ("alpha", "beta", "mu", "gamma", "curvature_norm", "noise_norm", "loss"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-8)
        of_linearised_sgd = alignment_of_trajectories(layered.errors.mT, layered.kernel())
        assert of_linearised_sgd.item() == pytest.approx(expected.mu, rel=1e-8)


def test_projected_images_keep_their_products_and_networks_their_outputs(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    pixels = images.inputs @ images.basis.mT
    torch.testing.assert_close(pixels @ pixels.mT, images.inputs @ images.inputs.mT, rtol=1e-4, atol=1e-4)
    identity = images.basis.mT @ images.basis
    torch.testing.assert_close(identity, torch.eye(identity.shape[1]).expand_as(identity), rtol=0, atol=1e-5)
    assert parameter_count(7, 2, 16) == sum((a + 1) * b for a, b in ((16, 7), (7, 7), (7, 1)))
    assert ensemble.sizes == (images.inputs.shape[2], 7, 7, 1)


def test_both_data_sets_of_digits_have_the_same_parity_and_cifar10_its_first_two_classes() -> None:
    labels = torch.arange(4)
    assert two_class_targets(labels, "mnist").tolist() == parity(labels).tolist() == [-1, 1, -1, 1]
    assert two_class_targets(labels, "cifar10").tolist() == [1, -1, 0, 0]
