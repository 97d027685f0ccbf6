"""A bowl is convex and a saddle is not."""

import numpy as np
import pytest

from replications.sgd_stability.analysis.loss_slices import non_convex_share, rise


def test_a_bowl_is_convex_everywhere_and_a_saddle_nowhere() -> None:
    line = np.linspace(-1, 1, 11)
    a, b = np.meshgrid(line, line)
    assert non_convex_share(a**2 + 3 * b**2 + a * b) == 0
    assert non_convex_share(a**2 - b**2) == 1
    assert non_convex_share(a * b) == 1
    assert rise(line, a**2 + b**2, 0.6) == pytest.approx(0.36, abs=0.03)
