"""All minima of a known function are found."""

import torch

from replications.pacgen.shared.minima import find_minima


def test_all_minima_of_a_known_function_are_found_once_in_order_of_their_value():
    def function(w: torch.Tensor) -> torch.Tensor:
        return (w[:, 0].square() - 4).square() / 10 + w[:, 0] / 10 + 3 * w[:, 1].square()

    minima = find_minima(function, half_width=5.0, count=41)
    assert len(minima.points) == 2
    assert float(minima.points[0, 0]) < -1.9
    assert float(minima.points[1, 0]) > 1.9
    assert bool((minima.points[:, 1].abs() < 1e-8).all())
    torch.testing.assert_close(minima.sharpness, torch.full((2,), 6.0, dtype=torch.float64))
