"""What each seed says is what the verdict is made of."""

import numpy as np
import pytest

from common.claims.parts import Part, parts, reference_level
from tests.unit.claims.conftest import verdict

GRID = {"arm": ["a", "b"], "size": list(range(8)), "seed": list(range(6))}
ARMS = {"of": {"arm": "a"}, "minus": {"arm": "b"}, "over": "size"}
AT_A = {"where": {"arm": "a"}, "over": "size"}


@pytest.mark.parametrize(
    "estimate",
    [
        {"kind": "mean", "metric": "u", **AT_A},
        {"kind": "paired_difference", "metric": "u", **ARMS},
        {"kind": "proportion", "metric": "hit", "where": {"arm": "a", "size": 0}},
        {"kind": "earlier", "metric": "u", "of": {"arm": "a"}, "than": {"arm": "b"}, "over": "size"},
        {"kind": "difference_at_equal", "metric": "curve", "equal": "loss", **ARMS},
        {"kind": "worst_case", "metric": "u", **AT_A},
        {"kind": "correlation", "x": "size", "y": "u", **AT_A},
        {"kind": "correlation", "x": "v", "y": "u", "given": ["w"], "method": "pearson", **AT_A},
        {"kind": "slope", "x": "size", "y": "u", **AT_A},
        {"kind": "difference_of_correlations", "of": {"x": "u", "y": "v"}, "minus": {"x": "w", "y": "v"}, **AT_A},
    ],
    ids=lambda estimate: estimate["kind"],
)
def test_the_parts_of_an_estimate_are_its_seeds_and_their_mean_is_the_estimate(claim, runs, random, estimate) -> None:
    noise = {name: random.normal(size=(2, 8, 6)) for name in ("u", "v", "w")}
    table = runs(GRID, **noise, hit=np.arange(6) % 3 == 0)
    table["loss"], table["curve"] = [[2.0, 1.0]] * len(table), [[value, 3.0] for value in table["u"]]
    rule = claim(estimate, {"above": 0})
    found = parts(rule, table, scale="laptop")
    undecided = 2 if estimate["kind"] == "earlier" else 0  # in two of them each arm is first four times
    assert len(found) == 6 - undecided
    assert {part.label for part in found} <= set("012345")
    assert np.mean([part.value for part in found]) == pytest.approx(verdict(rule, table).estimate)
    assert estimate["kind"] == "earlier" or len({part.value for part in found}) > 1


def test_the_parts_of_a_ratio_of_means_are_the_ratios_within_the_seeds(claim, runs) -> None:
    table = runs({"arm": ["a", "b"], "seed": range(2)}, u=[[2.0, 9.0], [1.0, 3.0]])
    ratio = claim({"kind": "ratio_of_means", "metric": "u", "of": {"arm": "a"}, "to": {"arm": "b"}}, {"above": 1})
    assert [part.value for part in parts(ratio, table, scale="laptop")] == [2.0, 3.0]


def test_planted_numbers_come_out_and_what_has_none_is_left_out(claim, runs) -> None:
    table = runs({"seed": range(4)}, loss=[1.0, np.nan, 3.0, 4.0])
    table.loc[table["seed"] == 3, "outcome"] = "failed"
    found = parts(claim({"kind": "mean", "metric": "loss"}, {"above": 0}), table, scale="laptop")
    assert found == (Part("0", 1.0), Part("2", 3.0))
    assert parts(claim({"kind": "mean", "metric": "lost"}, {"above": 0}), table, scale="laptop") == ()


def test_seeds_that_had_been_seen_do_not_count_beside_fresh_ones(claim, runs) -> None:
    table = runs({"seed": range(7)}, loss=[9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    seen = {"date": "2026-01-02", "reason": "after a look", "seen": {"laptop": [0, 1]}}
    rule = claim({"kind": "mean", "metric": "loss"}, {"above": 0}, amended=seen)
    found = parts(rule, table, scale="laptop")
    assert [part.label for part in found if part.left_out == "seen before the rule"] == ["0", "1"]
    assert np.mean([part.value for part in found if part.counts]) == verdict(rule, table).estimate == 3.0


def test_a_difference_is_taken_from_the_mean_of_the_other_arm_over_the_seeds_that_decide(claim, runs) -> None:
    table = runs({"arm": ["a", "b"], "seed": range(2)}, u=[[2.0, 9.0], [4.0, 8.0]])
    arms = {"of": {"arm": "a"}, "minus": {"arm": "b"}}
    rule = claim({"kind": "paired_difference", "metric": "u", **arms}, {"above": 0})
    assert reference_level(rule, table, scale="laptop") == 6.0
    assert (
        reference_level(claim({"kind": "mean", "metric": "u", "over": "arm"}, {"above": 0}), table, scale="laptop")
        is None
    )
    table.loc[3, "u"] = -8.0  # of an arm that changes sign nothing is a share
    assert reference_level(rule, table, scale="laptop") is None


def test_the_other_arm_of_a_difference_at_equal_is_its_mean_over_the_common_range(claim, runs) -> None:
    table = runs({"arm": ["a", "b"], "seed": [0]})
    table["loss"] = [[3.0, 1.0], [2.0, 0.0]]
    table["curve"] = [[10.0, 10.0], [4.0, 2.0]]  # on the range from 1 to 2 the other falls from 4 to 3
    arms = {"of": {"arm": "a"}, "minus": {"arm": "b"}}
    rule = claim({"kind": "difference_at_equal", "metric": "curve", "equal": "loss", **arms}, {"above": 0})
    assert reference_level(rule, table, scale="laptop") == pytest.approx(3.5)


def test_an_exact_number_has_settings_in_place_of_seeds(claim, runs) -> None:
    table = runs({"size": [2, 4], "seed": [0]}, gap=[[0.5], [0.25]])
    rule = claim({"kind": "exact", "metric": "gap", "over": ["size", "seed"]}, {"below": 1})
    assert parts(rule, table, scale="laptop") == (Part("size=2, seed=0", 0.5), Part("size=4, seed=0", 0.25))
