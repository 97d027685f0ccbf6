"""A gap that is not there counts as the least."""

import pandas as pd
import pytest

from replications.hessian_finetuning.analysis.bounds import metrics as bound_metrics


def test_metrics_of_bounds_count_a_gap_that_is_not_there_as_the_least() -> None:
    row = {
        "run": "a", "seed": 0, "system": "digits", "depth": 2, "gap": -0.2, "hessian_bound": 1.5,
        "cut_training_loss": 0.5, "cut_test_loss": 0.3, "mcallester": 3.0, "mcallester_bounds": 0.3, "catoni": 30.0,
        "catoni_bounds": 0.3, "limit_of_loss": 4.0, "norm_product": 15.0, "training_error": 0.2,
    }  # fmt: skip
    found = bound_metrics(pd.DataFrame([row])).loc["a"]
    assert found["theorem_over_gap"] == pytest.approx(3.0)
    assert found["norms_over_theorem"] == pytest.approx(1.0)
    assert found["mcallester_over_test_loss"] == pytest.approx(1.0)
    assert not found["regime_reached"]
