"""Gaps, selection and correlations of planted records."""

import math

import pandas as pd
import pytest

from replications.hessian_finetuning.analysis.seven_methods import (
    MEASURES,
    rank_correlation,
    selected,
    within_seed_correlations,
)
from replications.hessian_finetuning.analysis.seven_methods import metrics as seven_metrics


def planted() -> pd.DataFrame:
    """Settings of one seed whose gap is the measure, and falls with the distance."""
    rows = pd.DataFrame(
        {"measure": [0.1, 0.2, 0.3, 0.4], "training_loss": [0.5, 0.5, 0.5, 0.4], "first_training_loss": 1.0}
    )
    for name in MEASURES:
        rows[name] = -rows["measure"] if name == "distance" else rows["measure"]
    rows["test_loss"] = rows["training_loss"] + rows["measure"]
    rows["settling_training_loss"] = [0.5, 0.4, 0.5, 0.5]
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
    assert table["settling"].tolist() == pytest.approx([0, 0.25, 0, 0.2])
    assert table["fit"].tolist() == pytest.approx([-math.log10(loss) for loss in (0.5, 0.5, 0.5, 0.4)])
    assert table["vacuity"].tolist() == pytest.approx([(0.5 + m) / math.log(2) for m in (0.1, 0.2, 0.3, 0.3)])
    assert selected(table).index.tolist() == ["b"]
    found = within_seed_correlations(table).set_index("measure")["correlation"]
    assert found["measure"] == pytest.approx(1)
    assert found["distance"] == pytest.approx(-1)
    assert found["log_training_loss"] < 0


def several(gaps: dict[str, list[float]]) -> pd.DataFrame:
    """Four strengths of each method, the measure rising with the strength and the training loss falling unevenly."""
    parts = []
    for method, values in gaps.items():
        part = planted().assign(method=method, training_loss=[0.6, 0.4, 0.5, 0.3])
        parts.append(part.assign(test_loss=part["training_loss"] + values, run=[f"{method}{k}" for k in range(4)]))
    return pd.concat(parts, ignore_index=True)


def test_a_method_left_out_leaves_the_correlation_of_the_others() -> None:
    table = seven_metrics(several({"sgd": [0.4, 0.3, 0.2, 0.1], "mixup": [0.1, 0.2, 0.3, 0.4]}))
    without = table["measure_without_method"]
    assert without.filter(like="sgd").tolist() == pytest.approx([1] * 4)
    assert without.filter(like="mixup").tolist() == pytest.approx([-1] * 4)
    assert table["test_measure_without_method"].tolist() == pytest.approx(without.tolist())


def test_given_the_training_loss_is_what_is_left_of_both_after_it() -> None:
    # ranks: measure 1 2 3 4, gap 1 3 2 4, loss 4 2 3 1: r = 0.8, -0.8, -1; the loss explains all of the gap
    table = several({"sgd": [0.1, 0.3, 0.2, 0.4]}).assign(
        loss_gap=lambda rows: rows["test_loss"] - rows["training_loss"]
    )
    assert rank_correlation(table, "measure") == pytest.approx(0.8)
    table["training_loss"] = [0.6, 0.4, 0.3, 0.5]  # ranks 4 2 1 3: r with the measure -0.4, with the gap -0.2
    expected = (0.8 - 0.4 * 0.2) / math.sqrt((1 - 0.4**2) * (1 - 0.2**2))
    assert rank_correlation(table, "measure", "training_loss") == pytest.approx(expected)


def test_a_fine_tuning_that_raised_the_training_loss_has_not_reached_its_regime() -> None:
    records = planted().assign(first_training_loss=[1.0, 0.4, 1.0, 1.0])
    assert seven_metrics(records)["regime_reached"].tolist() == [True, False, True, True]
