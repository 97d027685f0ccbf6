"""Gaps, selection and correlations of planted records."""

import math

import pandas as pd
import pytest

from replications.hessian_finetuning.analysis.seven_methods import MEASURES, selected, within_seed_correlations
from replications.hessian_finetuning.analysis.seven_methods import metrics as seven_metrics


def planted() -> pd.DataFrame:
    """Settings of one seed whose gap is the measure, and falls with the distance."""
    rows = pd.DataFrame(
        {"measure": [0.1, 0.2, 0.3, 0.4], "training_loss": [0.5, 0.5, 0.5, 0.4], "first_training_loss": 1.0}
    )
    for name in MEASURES:
        rows[name] = -rows["measure"] if name == "distance" else rows["measure"]
    rows["test_loss"] = rows["training_loss"] + rows["measure"]
    errors = {
        "training_error": 0.1,
        "test_error": 0.3,
        "validation_error": 0.3,
        "validation_loss": [3.0, 1.0, 2.0, 4.0],
    }
    axes = {"system": "image", "method": "sgd", "strength": [1, 2, 3, 4], "seed": 0, "classes": 2, "run": list("abcd")}
    return rows.assign(**errors, **axes)


def test_gaps_selection_and_correlations_of_planted_records() -> None:
    records = planted()
    table = seven_metrics(records).join(records.set_index("run")[["system", "method", "strength", "seed"]])
    assert table["loss_gap"].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert table["error_gap"].tolist() == pytest.approx([20] * 4)
    assert table["vacuity"].tolist() == pytest.approx([(0.5 + m) / math.log(2) for m in (0.1, 0.2, 0.3, 0.3)])
    assert selected(table).index.tolist() == ["b"]
    found = within_seed_correlations(table).set_index("measure")["correlation"]
    assert found["measure"] == pytest.approx(1)
    assert found["distance"] == pytest.approx(-1)
    assert found["log_training_loss"] < 0


def test_a_fine_tuning_that_raised_the_training_loss_has_not_reached_its_regime() -> None:
    records = planted().assign(first_training_loss=[1.0, 0.4, 1.0, 1.0])
    assert seven_metrics(records)["regime_reached"].tolist() == [True, False, True, True]
