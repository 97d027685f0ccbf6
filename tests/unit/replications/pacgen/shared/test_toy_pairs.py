"""Geometry and loss of the toy where they are known."""

import pytest
import torch

from replications.pacgen.shared.toy_pairs import LocalConstants, local_geometry, probability_loss


def test_local_geometry_of_a_cubic_is_known():
    def cubic(w: torch.Tensor) -> torch.Tensor:
        return w[:, 0] ** 3 + w[:, 1] ** 2

    local = local_geometry(cubic, torch.tensor([[1.0, 0.0]], dtype=torch.float64), LocalConstants())
    assert float(local.rho) == pytest.approx(6.0)
    assert float(local.largest_eigenvalue) == pytest.approx(6.0)
    assert float(local.least_eigenvalue) == pytest.approx(2.0)
    assert local.diagonal.tolist() == [[pytest.approx(6.0), pytest.approx(2.0)]]


def test_probability_loss_lies_in_the_unit_interval_and_is_a_half_for_a_guess():
    points = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([True, False] * 3)
    weights = torch.tensor([[0.0, 0.0], [9.0, -4.0]], dtype=torch.float64)
    values = probability_loss(points, labels)(weights)
    assert float(values[0]) == pytest.approx(0.5)
    assert bool(((values >= 0) & (values <= 1)).all())
