"""The bend of a line whose ends are parabolas."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.interpolation import metrics as interpolation_metrics
from replications.sgd_stability.analysis.interpolation_equal_loss import metrics as equal_loss_metrics


def test_the_bend_ratio_of_a_line_is_that_of_its_parabolas() -> None:
    alpha = np.linspace(-1, 2, 25)
    loss = np.where(alpha < 0.5, 2 * alpha**2, 20 * (alpha - 1) ** 2)
    rows = pd.DataFrame({"run": "a", "alpha": alpha, "training_loss": loss, "training_error": 0.0})
    found = interpolation_metrics(rows).loc["a"]
    assert found["log10_bend_ratio"] == pytest.approx(1)
    assert found["outward_difference"] == pytest.approx(18 / 64)
    assert found["barrier"] == pytest.approx(float(loss[(alpha >= 0) & (alpha <= 1)].max()))
    assert found["regime_reached"]
    assert not interpolation_metrics(rows.assign(training_error=0.5)).loc["a", "regime_reached"]


def test_a_line_without_a_barrier_has_a_negative_one() -> None:
    alpha = np.linspace(-1, 2, 25)
    rows = pd.DataFrame({"run": "a", "alpha": alpha, "training_loss": (alpha + 2) ** 2, "training_error": 0.0})
    assert interpolation_metrics(rows).loc["a", "barrier"] == pytest.approx(2.875**2 - 9)


def test_ends_of_unequal_loss_are_outside_the_regime_of_equal_loss() -> None:
    alpha = np.linspace(-1, 2, 25)
    rows = pd.DataFrame({"run": "a", "alpha": alpha, "training_loss": 1 + alpha**2 / 4, "training_error": 0.5})
    assert equal_loss_metrics(rows).loc["a", "regime_reached"]
    assert not equal_loss_metrics(rows.assign(training_loss=1 + alpha**2)).loc["a", "regime_reached"]
