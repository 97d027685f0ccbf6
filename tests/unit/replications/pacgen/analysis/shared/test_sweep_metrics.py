"""Matched losses, rises and regimes of sweeps made by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.models import MnistConvNet
from replications.pacgen.analysis.shared.sweep_metrics import PARAMETERS, sweep_metrics


def curve(run: str, seed: int, batch: int, losses: list[float], gaps: list[float]) -> list[dict[str, Any]]:
    constant = {"kind": "epoch", "test_loss": 0.0, "training_error": 0.0, "test_error": 0.0, "hessian_trace": 1.0}
    constant |= {"hessian_trace_error": 0.1, "mean_squared_gradient": 1.0, "rho": 1.0, "rho_fixed_batch": 1.0}
    constant |= {"psi_fixed_batch": 1.0, "psi_no_rho": 1.0, "dataset": "mnist", "momentum": 0.0}
    return [
        {
            "run": run,
            "seed": seed,
            "batch_size": batch,
            "epoch": k,
            "step": k,
            "training_loss": a,
            "gap": b,
            "psi": 2 * b,
        }
        | constant
        for k, (a, b) in enumerate(zip(losses, gaps, strict=True), start=1)
    ]


def doublings(gaps: list[tuple[float, ...]]) -> list[dict[str, Any]]:
    """Curves whose batch sizes double from 8 on; the gaps of each seed."""
    return [
        row
        for seed, mine in enumerate(gaps)
        for k, gap in enumerate(mine)
        for row in curve(f"{seed}-{8 * 2**k}", seed, 8 * 2**k, [1.0, 0.04, 0.01, 0.01], [0.0, gap, gap, gap])
    ]


def test_matched_measures_are_interpolated_where_the_loss_first_passes_the_one_common_level():
    rows = curve("a", 0, 8, [1.0, 0.1, 0.04, 0.01, 0.01], [0.0, 0.2, 0.3, 0.5, 0.5])
    rows += curve("b", 0, 16, [1.0, 0.05, 0.3, 0.01, 0.01], [0.0, 0.1, 0.4, 0.5, 0.6])
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    share = np.log(0.1 / 0.05) / np.log(0.1 / 0.04)
    assert table.loc["a", "matched_gap"] == pytest.approx(0.2 + share * 0.1)
    assert table.loc["a", "matched_psi"] == pytest.approx(2 * table.loc["a", "matched_gap"])
    assert table.loc["b", "matched_gap"] == pytest.approx(0.1)
    assert table["gap"].to_dict() == {"a": 0.5, "b": 0.6}
    assert table["regime_reached"].all()
    assert table.loc["a", "log_training_loss"] == pytest.approx(-2)
    assert table.columns.is_unique


def test_a_check_of_the_loss_alone_counts_for_the_regime_and_not_for_the_measures():
    rows = curve("a", 0, 8, [1.0, 0.03, 0.02, 0.01], [0.0, 0.2, np.nan, 0.3])
    rows[2]["kind"] = "check"
    rows += curve("b", 0, 16, [1.0, 0.03, 0.04, 0.01], [0.0, 0.2, np.nan, 0.3])
    rows[-2]["kind"] = "check"
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert table["regime_reached"].to_dict() == {"a": True, "b": False}
    assert table["matched_gap"].notna().all()
    assert table["gap"].to_dict() == {"a": 0.3, "b": 0.3}


def test_a_rise_is_the_largest_minus_the_smallest_setting_of_the_same_seed():
    rows = doublings([(0.1, 0.9, 0.4), (0.3, 0.2, 0.1)])
    table = sweep_metrics(pd.DataFrame(rows[:-4]), "batch_size")  # the largest setting of the second seed is missing
    assert table.loc[["0-8", "0-16", "0-32"], "gap_rise"].tolist() == pytest.approx([0.3] * 3)
    assert table.loc[["1-8", "1-16"], "gap_rise"].isna().all()
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert table.loc["1-16", "gap_rise"] == pytest.approx(-0.2)
    assert table.loc["1-16", "matched_gap_rise"] == pytest.approx(-0.2 * np.log(20) / np.log(25))


def test_runs_that_were_never_fitted_end_in_a_spike_or_end_early_have_not_reached_the_regime():
    rows = curve("never", 0, 8, [1.0, 0.3, 0.1, 0.1], [0.0, 0.0, 0.0, 0.1])
    rows += curve("spike", 0, 16, [1.0, 0.04, 0.01, 1.1], [0.0, 0.2, 0.3, 0.3])
    rows += curve("early", 0, 32, [1.0, 0.04, 0.01], [0.0, 0.1, 0.1])
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert not table["regime_reached"].any()
    assert np.isnan(table.loc["early", "gap"])
    assert np.isnan(table.loc["never", "matched_gap"])
    assert table.loc["spike", "matched_gap"] == pytest.approx(0.2 * np.log(20) / np.log(25))


def test_a_slope_is_over_doublings_of_all_settings_of_the_same_seed():
    rows = doublings([(0.1, 0.9, 0.1, 0.2), (0.1, 0.2, 0.3, 0.4)])
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    fit = np.polyfit([3, 4, 5, 6], [0.1, 0.9, 0.1, 0.2], 1)[0]
    assert table.loc["0-8", "gap_rise"] > 0 > fit
    assert table.loc[["0-8", "0-64"], "gap_slope"].tolist() == pytest.approx([fit] * 2)
    assert table.loc["1-8", "gap_slope"] == pytest.approx(0.1)
    assert table.loc["1-8", "psi_slope"] == pytest.approx(0.2)
    rows[-6]["gap"], rows[-5]["epoch"] = np.nan, 5
    ended = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert ended.loc[["1-8", "1-64"], "gap_slope"].isna().all()


def test_a_curve_holds_every_full_look_in_order_of_steps():
    rows = curve("a", 0, 8, [1.0, 0.1, 0.04, 0.01], [0.0, 0.2, np.nan, 0.5])
    rows[2]["kind"] = "check"
    rows += curve("b", 0, 16, [1.0, 0.05, 0.01, 0.01], [0.0, 0.1, 0.4, 0.5])
    table = sweep_metrics(pd.DataFrame(rows[::-1]), "batch_size")
    assert table.loc["a", "gap_curve"] == [0.0, 0.2, 0.5]
    assert table.loc["a", "log_training_loss_curve"] == pytest.approx([0, -1, -2])
    assert table.loc["b", "psi_curve"] == pytest.approx([0.0, 0.2, 0.8, 1.0])


def test_the_share_without_rho_is_the_range_of_the_rest_over_that_of_psi_within_a_seed():
    half = PARAMETERS["mnist"] / 2
    rows = doublings([(0.1, 0.2, 0.3), (0.1, 0.2, 0.3)])
    rhos = {8: 1.0, 16: np.e**2, 32: np.e**3}
    rests = {0: {8: 7.0, 16: 7.0, 32: 7.0}, 1: {8: 0.0, 16: 0.5 * half, 32: -half}}
    for row in rows:
        row["rho"] = rhos[row["batch_size"]]
        row["psi"] = half * np.log(row["rho"]) + rests[row["seed"]][row["batch_size"]]
    table = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert table.loc[["0-8", "0-32"], "psi_without_rho_share"].tolist() == pytest.approx([0, 0], abs=1e-12)
    # Ψ of the second seed is 0, 2.5 and 2 in units of m/2: its range is 2.5, that of the rest 1.5
    assert table.loc[["1-8", "1-16"], "psi_without_rho_share"].tolist() == pytest.approx([0.6, 0.6])
    rows[-1]["rho"] = 0.0
    gone = sweep_metrics(pd.DataFrame(rows), "batch_size")
    assert gone.loc[["1-8", "1-16", "1-32"], "psi_without_rho_share"].isna().all()
    assert gone.loc["0-8", "psi_without_rho_share"] == pytest.approx(0, abs=1e-12)


def test_constant_psi_has_no_share_without_rho():
    rows = doublings([(0.1, 0.1, 0.1)])
    assert sweep_metrics(pd.DataFrame(rows), "batch_size")["psi_without_rho_share"].isna().all()


def test_the_numbers_of_parameters_are_those_of_the_networks():
    networks = {"mnist": MnistConvNet(1, 28), "cifar10": MnistConvNet(3, 32)}
    assert {name: sum(p.numel() for p in net.parameters()) for name, net in networks.items()} == PARAMETERS
