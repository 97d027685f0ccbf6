"""Gaps and orders of perturbed losses made by hand."""

import pandas as pd
import pytest

from replications.hessian_finetuning.analysis.noise_stability import metrics as stability_metrics


def test_metrics_of_noise_stability_on_numbers_made_by_hand() -> None:
    factors = [0.125, 0.25, 0.5, 1.0]
    rows = [
        {
            "run": "a",
            "factor": factor,
            "sigma": 0.1 * factor,
            "paired_change": 1.25 * factor**2,
            "remainder_error": 0.0,
            "curvature": factor**2,
            "kinks": 0.25 * factor**2,
            "remainder": 0.25 * factor**2,
            "training_error": 0.4 if factor == 1 else 0.0,
            "test_error": 0.4,
        }
        for factor in factors
    ]
    found = stability_metrics(pd.DataFrame(rows)).loc["a"]
    assert found["relative_gap"] == pytest.approx(-0.2)
    assert found["relative_gap_small_with_kinks"] == pytest.approx(0.0)
    assert found["remainder_order"] == pytest.approx(2.0)
    assert found["trace"] == pytest.approx(200.0)
    assert not found["regime_reached"]
