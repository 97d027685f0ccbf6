"""What arms are compared by at equal training loss."""

import pandas as pd
import pytest

from replications.hessian_finetuning.analysis.noise_injection import metrics


def test_curves_hold_every_measurement_in_order_of_steps() -> None:
    measured = {
        "test_trace": 1.0,
        "sharpness": 1.0,
        "test_sharpness": 2.0,
        "sigma": 0.01,
        "trace_standard_error": 0.1,
        "test_trace_standard_error": 0.1,
    }
    measured |= {"test_error": 0.2, "validation_error": 0.2, "total_steps": 20, "first_training_loss": 2.0}
    rows = [
        {"run": "nso", "step": step, "gradients": 2 * step, "training_loss": loss, "test_loss": 1.5, "trace": trace}
        | {"rise": 10 * loss, "test_rise": 2.0}
        | measured
        for step, loss, trace in ((20, 0.1, -3.0), (10, 1.0, 8.0))
    ]
    row = metrics(pd.DataFrame(rows)).loc["nso"]
    assert row["trace"] == -3.0
    assert row["trace_per_nat_curve"] == pytest.approx([8.0, -30.0])
    assert row["trace_curve"] == [8.0, -3.0]
    assert row["test_sharpness_curve"] == [2.0, 2.0]
    assert row["test_accuracy_curve"] == pytest.approx([80, 80])
    assert row["loss_gap_curve"] == pytest.approx([0.5, 1.4])
    assert row["log_training_loss_curve"] == pytest.approx([0.0, -1.0])
    assert (row["rise"], row["test_rise"], row["rise_curve"]) == (1.0, 2.0, [10.0, 1.0])
