"""A bowl is convex and a saddle is not."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.loss_slices import metrics, non_convex_share, rise


def test_a_bowl_is_convex_everywhere_and_a_saddle_nowhere() -> None:
    line = np.linspace(-1, 1, 11)
    a, b = np.meshgrid(line, line)
    assert non_convex_share(a**2 + 3 * b**2 + a * b) == 0
    assert non_convex_share(a**2 - b**2) == 1
    assert non_convex_share(a * b) == 1
    assert rise(line, a**2 + b**2, 0.6) == pytest.approx(0.36, abs=0.03)


@pytest.mark.parametrize(("error", "reached"), [(0.015, True), (0.05, False)])
def test_a_network_with_five_per_cent_of_wrong_training_labels_is_at_no_minimum(error: float, reached: bool) -> None:
    line = np.linspace(-1, 1, 5)
    rows = [{"run": "r", "kind": "slice", "a": a, "b": b, "loss": 1e-3 + a**2 + b**2} for a in line for b in line]
    rows.append({"run": "r", "kind": "epoch", "epoch": 1, "loss": 1e-3, "error": error})
    assert metrics(pd.DataFrame(rows)).loc["r", "regime_reached"] == reached
