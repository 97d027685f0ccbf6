"""Alignment factors against the toolkit, and projected images."""

from typing import Any

import pytest
import torch

from common.hessian import Problem, alignment
from common.training import Batches
from replications.sgd_stability.shared.scalar_networks import (
    alignment_factors,
    alignment_of_noise,
    draw_images,
    draw_networks,
    errors_and_kernel,
    parameter_count,
    smallest_alignment,
)
from tests.unit.replications.sgd_stability.samples import images as digit_images


@pytest.fixture
def networks() -> tuple[Any, Any]:
    sources = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    images = draw_images(digit_images(), "mnist", 12, sources)
    return draw_networks(7, 2, images, sources), images


def test_factors_from_the_closed_form_kernel_are_those_of_the_toolkit(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    errors, kernel = errors_and_kernel(ensemble, images)
    found = alignment_factors(errors, kernel)
    for member in range(2):
        data = images.inputs[member].double(), images.targets[member].double()
        expected = alignment(Problem(ensemble.module(member).double(), torch.nn.MSELoss(), data))
        for name in ("alpha", "beta", "mu", "gamma"):
            assert float(getattr(found, name)[member]) == pytest.approx(getattr(expected, name), rel=1e-8)
        assert 2 * float(found.frobenius[member]) == pytest.approx(expected.curvature_norm, rel=1e-8)


def test_projected_images_keep_their_products_and_networks_their_outputs(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    pixels = images.inputs @ images.basis.mT
    torch.testing.assert_close(pixels @ pixels.mT, images.inputs @ images.inputs.mT, rtol=1e-4, atol=1e-4)
    identity = images.basis.mT @ images.basis
    torch.testing.assert_close(identity, torch.eye(identity.shape[1]).expand_as(identity), rtol=0, atol=1e-5)
    assert parameter_count(7, 2, 16) == sum((a + 1) * b for a, b in ((16, 7), (7, 7), (7, 1)))
    assert ensemble.sizes == (images.inputs.shape[2], 7, 7, 1)


def test_mu_zero_is_the_least_alignment_of_linearised_sgd(networks: tuple[Any, Any]) -> None:
    ensemble, images = networks
    errors, kernel = errors_and_kernel(ensemble, images)
    picks = Batches(12, 3, [torch.Generator().manual_seed(seed) for seed in (5, 6)], order="independent")
    chosen = torch.stack([picks.next([0, 1]) for _ in range(4)], 1)
    found = smallest_alignment(errors, kernel, 0.01, chosen)
    seen = []
    for step in range(4):
        moved = errors.clone()
        for member in range(2):
            at = chosen[member, step]
            moved[member] -= 0.01 / 3 * kernel[member][:, at] @ errors[member, at]
        errors = moved
        seen.append(alignment_of_noise(errors, kernel))
    torch.testing.assert_close(found, torch.stack(seen).amin(0))
