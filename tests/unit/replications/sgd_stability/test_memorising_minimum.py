"""Methods of equal cost, and a row each."""

import pytest

from replications.sgd_stability import memorising_minimum, memorising_without_bias
from replications.sgd_stability.analysis.memorising_minimum import metrics as memorising_minimum_metrics
from tests.unit.replications.sgd_stability.samples import records

pytest.importorskip("numba")

SMALL = {"dimension": 6, "examples": 8, "width": 5, "epochs": 30, "fresh_examples": 20, "evaluations": 6}


def test_methods_take_equally_many_gradients_of_examples() -> None:
    totals = set()
    for method in ("gd", "sgd", "sam"):
        totals.add(records(memorising_minimum, seeds=1, **SMALL, method=method)["gradients"].iloc[-1])
    assert len(totals) == 1


def test_constructions_and_trainings_give_one_row_each() -> None:
    table = records(memorising_minimum, seeds=1, **SMALL, method="constructions", wide_dimension=12)
    row = memorising_minimum_metrics(table).iloc[0]
    assert row["regime_reached"]
    assert row["corrected_error"] < 1e-12
    assert row["corrected_over_bound"] == pytest.approx(1) == row["generalising_over_bound_wide"]


def test_a_network_without_bias_is_that_of_inputs_without_the_last_coordinate() -> None:
    table = records(memorising_without_bias, seeds=1, **SMALL, method="gd", bias=False)
    assert table["least_trace"].iloc[0] == pytest.approx(4 * SMALL["dimension"] ** 0.5)
    with_bias = records(memorising_without_bias, seeds=1, **SMALL, method="gd")
    same = records(memorising_minimum, seeds=1, **SMALL, method="gd")
    assert with_bias["loss"].tolist() == same["loss"].tolist() != table["loss"].tolist()
