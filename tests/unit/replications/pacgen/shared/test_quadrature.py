"""Quadrature against moments known in closed form."""

import pytest
import torch

from replications.pacgen.shared.quadrature import expected_along_segment, expected_cubed_norm, expected_over_uniform


def test_quadrature_is_exact_on_polynomials_and_near_on_cubed_norms():
    points = torch.tensor([[0.3, -1.0]], dtype=torch.float64)
    widths = torch.tensor([[0.5, 2.0]], dtype=torch.float64)
    mean = expected_over_uniform(lambda w: w[:, 0] ** 2 * w[:, 1] ** 2, points, widths)
    assert float(mean) == pytest.approx((0.09 + 0.25 / 3) * (1 + 4 / 3))
    along = expected_along_segment(lambda w: w[:, 0] * w[:, 1], points, widths)
    assert float(along) == pytest.approx(-0.3 + 1.0 / 3)
    draws = (2 * torch.rand(400_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1) * widths
    assert float(expected_cubed_norm(widths)) == pytest.approx(float(draws.norm(dim=1).pow(3).mean()), rel=0.01)
