"""The toy of Fig. 15 and its multipliers."""

import numpy as np

from replications.sgd_stability import toy_escape
from replications.sgd_stability.analysis.toy_escape import metrics as toy_metrics
from tests.unit.replications.sgd_stability.samples import records


def test_sgd_leaves_the_toys_minimum_without_the_halves_only_and_gd_never():
    setting = {"trajectories": 50, "steps": 300, "draws": 400}
    free, halved, full = (
        toy_metrics(records(toy_escape, **setting, **how)) for how in ({}, {"half": True}, {"method": "gd"})
    )
    assert (free["all_escape"] == 1).all()
    assert (halved["none_escapes"] == 1).all()
    assert (full["none_escapes"] == 1).all()
    assert free["second_ratio"].between(0.9, 1.1).all()
    assert free["worst_z"].max() < 6


def test_deviations_of_opposite_sign_do_not_cancel_and_those_of_the_full_batch_count():
    table = records(toy_escape, trajectories=2, steps=2, draws=400, examples=8, batch_sizes=(2, 8))
    sound = toy_metrics(table)
    assert sound[["first_largest_z", "second_largest_z"]].max(axis=None) < 6
    multiplier = table["kind"] == "multiplier"
    sign = np.where(np.arange(len(table)) % 2, 1, -1)
    wrong = table.assign(first=table["first"] + multiplier * sign * 9 * table["first_error"])
    assert toy_metrics(wrong)["first_largest_z"].min() > 6
    full = multiplier & (table["batch"] == 8)
    assert toy_metrics(table.assign(second=table["second"] * (1 + 1e-3 * full)))["second_largest_z"].min() > 6


def test_multipliers_of_the_toy_are_exact_for_the_full_batch():
    table = records(toy_escape, trajectories=2, steps=2, draws=30, examples=8, batch_sizes=(8,))
    table = table[table["kind"] == "multiplier"]
    np.testing.assert_allclose(table["second"], table["second_predicted"], atol=1e-12)
    np.testing.assert_allclose(table["first"], table["first_predicted"], atol=1e-12)
