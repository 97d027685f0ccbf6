"""Exponents, divergence as an outcome, and times until the loss has grown."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.escape import metrics

MINIMUM = {
    "kind": "minimum", "learning_rate": 0.05, "batch_size": 1, "training_images": 200, "noise_scale": 1.0,
    "trajectories": 200, "sharpness": 34.0, "non_uniformity": 9.0, "hessian_norm": 40.0, "criterion": 2.0,
    "radius": 4.0, "decoupled_sum": 8.0, "test_accuracy": 0.8,
}  # fmt: skip
SETTLED = {"settled": True, "lost": False, "loss": 1e-5, "sharpness_now": 9.0, "test_accuracy": 0.8, "step": 50}
DIVERGED = {"settled": False, "lost": True, "step": 30}


def _metrics(
    median: Sequence[float | None],
    after: dict[str, object] = SETTLED,
    *,
    mean: Sequence[float | None] | None = None,
    diverged: int = 0,
    every: int = 4,
    **minimum: object,
) -> pd.Series:
    losses = [
        {
            "kind": "losses",
            "step": every * place,
            "median": loss,
            "mean": (mean or median)[place],
            "linear_median": loss,
            "linear_mean": loss,
            "expected": 1e-8 * 4.0 ** (every * place),
            "trajectories_diverged": diverged,
        }
        for place, loss in enumerate(median)
    ]
    averages = {"kind": "averages", "smallest_mu": 0.5, "smallest_ratio": 3.0}
    rows = [{**MINIMUM, **minimum}, averages, *losses, {"kind": "course", "loss": 0.5}, {"kind": "afterwards", **after}]
    return metrics(pd.DataFrame(rows).assign(run="a")).loc["a"]


def test_a_median_that_is_lost_has_no_rise_but_the_time_until_it_was_tenfold() -> None:
    found = _metrics([1e-8, 1e-6, 1e-4, 1e-2, None], DIVERGED, diverged=120)
    assert np.isnan(found["rise"])
    assert np.isnan(found["linear_rise"])
    assert found["tenfold_time"] == pytest.approx(2)
    assert found["log_time_ratio"] == pytest.approx(0)
    assert (found["diverged_share"], found["any_diverged"]) == (0.6, 1)


def test_a_network_that_diverges_counts_as_not_settled_and_has_no_sharpness() -> None:
    found = _metrics([1e-8, 1e-6], DIVERGED)
    assert (found["lost"], found["settled"], found["halved"]) == (1, 0, 0)
    assert np.isnan(found["sharpness_after"])
    assert np.isnan(found["accuracy_after"])


def test_one_that_is_flat_but_finds_no_minimum_is_not_halved_and_keeps_its_sharpness() -> None:
    found = _metrics([1e-8, 1e-6], {**SETTLED, "settled": False, "loss": 0.4, "sharpness_now": 3.4})
    assert (found["lost"], found["settled"], found["halved"]) == (0, 0, 0)
    assert found["sharpness_after"] == pytest.approx(0.1)


def test_a_minimum_found_with_less_than_half_the_sharpness_counts_as_halved() -> None:
    flat, sharp = (_metrics([1e-8, 1e-2], {**SETTLED, "sharpness_now": sharpness}) for sharpness in (16.9, 17.1))
    assert (flat["settled"], flat["halved"]) == (1, 1)
    assert (sharp["settled"], sharp["halved"]) == (1, 0)
    assert flat["rise"] == pytest.approx(6)


def test_the_rise_within_twenty_steps_is_none_where_the_loss_falls_and_takes_no_later_step() -> None:
    assert _metrics([1e-8, *[1e-7] * 4, 1e-5, None])["rise_in_twenty"] == pytest.approx(3)
    assert _metrics([1e-8, *[1e-9] * 5, 1.0])["rise_in_twenty"] == pytest.approx(-1)


def test_a_time_is_missing_where_the_loss_never_comes_there_or_only_when_it_is_lost() -> None:
    assert np.isnan(_metrics([1e-8, 5e-8, 2e-8])["tenfold_time"])
    assert np.isnan(_metrics([1e-8, None], DIVERGED)["tenfold_time"])


def test_the_exponent_is_that_of_planted_growth_between_tenfold_and_the_end_of_the_linear_range() -> None:
    growth = np.log(3.0)
    loss = [1e-8 * np.exp(growth * step) for step in range(14)]
    bent = [2e-8, *loss[1:10], 0.5, *[0.9] * 3]  # a transient before, saturation after
    found = _metrics(bent, every=1)
    assert found["exponent"] == pytest.approx(growth)
    assert found["linear_exponent"] == found["typical_exponent"] == pytest.approx(growth)
    assert found["exponent_ratio"] == found["typical_to_predicted"] == pytest.approx(growth / np.log(4.0))
    assert found["typical_ratio"] == pytest.approx(1)
    assert found["expected_exponent"] == pytest.approx(np.log(4.0))
    assert found["exponent_over_bound"] == pytest.approx(growth - np.log(0.05**2 * 0.5 * 40**2))


def test_the_exponent_of_the_mean_ends_where_a_trajectory_diverges_and_needs_three_points() -> None:
    loss = [1e-8 * 4.0**step for step in range(8)]
    lost = _metrics(loss, mean=[*loss[:5], None, 1e-7, 1e-7], diverged=1, every=1)
    assert lost["exponent"] == pytest.approx(np.log(4.0))  # steps 2, 3, 4
    assert lost["typical_exponent"] == pytest.approx(np.log(4.0))
    assert np.isnan(_metrics(loss, mean=[*loss[:4], None, 1e-7, 1e-7, 1e-7], diverged=1, every=1)["exponent"])
    assert np.isnan(_metrics([1e-8] * 9)["exponent"])


def test_the_regime_is_that_of_the_start_whatever_follows() -> None:
    assert _metrics([1e-8, None], DIVERGED, diverged=200)["regime_reached"]
    assert not _metrics([3e-8, 1e-4])["regime_reached"]
    assert not _metrics([1e-8, 1e-4], sharpness=36.1)["regime_reached"]


def test_with_all_images_in_each_batch_theorem_four_has_no_bound_and_its_margin_is_that_to_zero() -> None:
    found = _metrics([1e-8, 1e-9], batch_size=200, noise_scale=0.0)
    assert np.isnan(found["log_gamma0"])
    assert found["theorem_margin"] == 3.0
