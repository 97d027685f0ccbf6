"""Losses that are not finite, and times until the loss has grown."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.escape import metrics

MINIMUM = {
    "kind": "minimum", "learning_rate": 0.1, "batch_size": 1, "training_images": 200, "noise_scale": 1.0,
    "sharpness": 20.0, "non_uniformity": 9.0, "hessian_norm": 30.0, "criterion": 2.0, "radius": 1.5,
    "decoupled_sum": 8.0,
}  # fmt: skip


def _metrics(median: list[float], **after: object) -> pd.Series:
    losses = [
        {"kind": "losses", "step": 4 * place, "median": loss, "mean": loss, "linear_median": loss, "linear_mean": loss}
        for place, loss in enumerate(median)
    ]
    averages = {"kind": "averages", "smallest_mu": 0.5, "smallest_ratio": 3.0}
    rows = [
        MINIMUM,
        averages,
        *losses,
        {"kind": "afterwards", "diverged": False, "test_accuracy": 0.8, "steps_taken": 50, **after},
    ]
    return metrics(pd.DataFrame(rows).assign(run="a")).loc["a"]


def test_a_median_that_is_lost_has_no_rise_but_the_time_until_it_was_tenfold() -> None:
    found = _metrics([1e-6, 1e-4, 1e-2, 1.0, 1e12], diverged=True)
    assert np.isnan(found["rise"])
    assert np.isnan(found["linear_rise"])
    assert found["lost"] == 1
    assert found["tenfold_time"] == pytest.approx(2)
    assert found["log_time_ratio"] == pytest.approx(0)
    assert found["settled"] == found["halved"] == 0


def test_the_rise_within_twenty_steps_is_none_where_the_loss_falls_and_takes_no_later_step() -> None:
    assert _metrics([1e-6, *[1e-5] * 4, 1e-3, 1e12], diverged=True)["rise_in_twenty"] == pytest.approx(3)
    assert _metrics([1e-6, *[1e-7] * 5, 1.0], loss=1e-5, sharpness_after=9.0)["rise_in_twenty"] == pytest.approx(-1)


def test_a_time_is_missing_where_the_loss_never_comes_there_or_only_when_it_is_lost() -> None:
    assert np.isnan(_metrics([1e-6, 5e-6, 2e-6], loss=1e-5, sharpness_after=9.0)["tenfold_time"])
    assert np.isnan(_metrics([1e-6, 1e12], diverged=True)["tenfold_time"])


def test_a_minimum_found_with_less_than_half_the_sharpness_counts_as_halved() -> None:
    flat, sharp = (_metrics([1e-6, 1e-2], loss=1e-5, sharpness_after=sharpness) for sharpness in (9.0, 11.0))
    assert (flat["settled"], flat["halved"]) == (1, 1)
    assert (sharp["settled"], sharp["halved"]) == (1, 0)
    assert flat["rise"] == pytest.approx(4)
