"""Numbers of runs whose curves were made by hand."""

import numpy as np
import pandas as pd
import pytest

from replications.grokking.analysis.shared.grokked_runs import run_metrics
from tests.unit.replications.grokking.samples import SPIKY, curve


def with_curvature(frame: pd.DataFrame, rows: list[tuple[int, float]], loss: float = 1.0) -> pd.DataFrame:
    first = frame.iloc[:1].assign(kind="curvature")
    extra = [
        first.assign(
            step=step,
            trace=value,
            validation_trace=value,
            sharpness=value,
            trace_standard_error=0.1 * value,
            validation_trace_standard_error=0.1 * value,
            curvature_loss=loss,
        )
        for step, value in rows
    ]
    return pd.concat([frame, *extra], ignore_index=True)


def test_time_to_grok_delay_fluctuation_and_drops_of_a_known_curve() -> None:
    row = run_metrics(curve(SPIKY)).iloc[0]
    assert (row["time_to_grok"], row["gradients_to_grok"], row["delay"]) == (30, 60, 20)
    assert row["fluctuation"] == pytest.approx(100 * np.std([0.99, 0.9, 1.0, 0.9], ddof=1))
    assert row["drops"] == 2
    assert row["late_fluctuation"] == pytest.approx(100 * np.std([1.0, 0.9, 1.0, 1.0], ddof=1))
    assert row["share_to_grok"] == pytest.approx(30 / 80)


def test_a_run_that_never_groks_has_no_time_and_no_fluctuation() -> None:
    row = run_metrics(curve([0.1] * 6)).iloc[0]
    assert np.isnan(row["time_to_grok"])
    assert np.isnan(row["fluctuation"])
    assert row["share_to_grok"] == 1


def test_a_window_that_does_not_fit_has_no_fluctuation() -> None:
    assert np.isnan(run_metrics(curve([0.1, 0.2, 0.3, 0.4, 0.99, 1.0])).iloc[0]["fluctuation"])


def test_curvature_is_averaged_over_the_last_third_as_logarithms() -> None:
    rows = with_curvature(curve(SPIKY), [(10, 1e9), (60, 10.0), (80, 1000.0)])
    row = run_metrics(rows).iloc[0]
    assert row["log_trace"] == pytest.approx(2)
    assert row["log_trace_standard_error"] == pytest.approx(0.1 / np.sqrt(2) / np.log(10))


def test_curvature_per_nat_does_not_see_a_change_in_proportion_to_the_loss() -> None:
    calm, spike = (
        run_metrics(with_curvature(curve(SPIKY), [(60, scale), (80, scale)], loss=scale / 4)).iloc[0]
        for scale in (0.01, 100.0)
    )
    assert spike["log_trace"] - calm["log_trace"] == pytest.approx(4)
    for name in ("log_trace_per_nat", "log_sharpness_per_nat"):
        assert calm[name] == pytest.approx(spike[name]) == pytest.approx(np.log10(4))
    fitted = run_metrics(with_curvature(curve(SPIKY), [(80, 1.0)], loss=0.0)).iloc[0]
    assert np.isnan(fitted["log_trace_per_nat"])


def test_a_negative_trace_has_no_logarithm_and_a_median() -> None:
    rows = with_curvature(curve(SPIKY), [(10, 1e9), (60, -4.0), (70, 10.0), (80, 1000.0)])
    row = run_metrics(rows).iloc[0]
    assert np.isnan(row["log_trace"])
    assert row["trace"] == row["validation_trace"] == 10.0


def test_curves_run_over_all_times_of_a_positive_loss() -> None:
    rows = with_curvature(curve(SPIKY), [(80, 30.0), (10, 500.0)], loss=0.1)
    rows = pd.concat([rows, with_curvature(curve(SPIKY), [(60, 7.0)], loss=0.0).iloc[-1:]])
    row = run_metrics(rows).iloc[0]
    assert row["trace_per_nat_curve"] == row["sharpness_per_nat_curve"] == pytest.approx([5000.0, 300.0])
    assert row["log_loss_curve"] == pytest.approx([-1.0, -1.0])
    assert np.isnan(run_metrics(curve(SPIKY)).iloc[0]["log_loss_curve"]).tolist() == [True]
