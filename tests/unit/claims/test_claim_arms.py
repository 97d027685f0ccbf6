"""Two arms at the same seeds: ratio of means, who comes first, difference at equal progress; and how large it is."""

from typing import Any

import numpy as np
import pytest

from common.claims.by_seed import difference_over_common_range
from common.claims.intervals import fieller
from common.errors import UserError
from tests.unit.claims.conftest import verdict

ARMS = {"arm": ["a", "b"]}
A, B = {"arm": "a"}, {"arm": "b"}
RATIO = {"kind": "ratio_of_means", "metric": "loss", "of": A, "to": B}
FIRST = {"kind": "earlier", "metric": "steps", "of": A, "than": B}
EQUAL = {"kind": "difference_at_equal", "metric": "gap", "equal": "loss", "of": A, "minus": B}


def test_ratio_of_means_is_not_the_mean_of_ratios(claim, runs) -> None:
    b = np.array([3.0, 4.0, 5.0, 6.0, 9.0])
    a = 2 * b + np.array([0.5, -0.5, 0.3, -0.3, 0.0])
    found = verdict(claim(RATIO, {"above": 1}), runs({**ARMS, "seed": range(5)}, loss=[a, b]))
    assert found.estimate == pytest.approx(a.mean() / b.mean())
    assert (found.verdict, found.n) == ("reproduced", 5)
    assert found.interval[0] < 2 < found.interval[1] < 2.3, "what the arms share drops out of the interval"


def test_fieller_holds_its_level(random) -> None:
    shared = random.normal(size=(4000, 6))
    of, to = 3 + shared + 0.5 * random.normal(size=(4000, 6)), 2 + shared
    bounds = fieller(of, to)
    missed = np.mean((bounds.low > 1.5) | (bounds.high < 1.5))
    assert missed == pytest.approx(0.05, abs=0.012)


def test_a_ratio_to_what_may_be_zero_has_no_bounds(claim, runs, random) -> None:
    loss = np.array([np.ones(5), 0.1 * random.normal(size=5)]) + 0.01 * random.normal(size=(2, 5))
    found = verdict(claim(RATIO, {"above": 1}), runs({**ARMS, "seed": range(5)}, loss=loss))
    assert found.verdict == "not decidable at this scale"
    assert found.reason == "The mean below the fraction line may be zero, so the ratio has no bounds."


def test_never_within_the_run_is_the_latest_and_decides(claim, runs) -> None:
    a = np.array([10, 20, 30, 40, 50, 60, 70.0])
    b = np.array([np.nan, 25, np.nan, 45, 55, np.nan, np.nan])
    found = verdict(claim(FIRST, {"above": 0.5}), runs({**ARMS, "seed": range(7)}, steps=[a, b]))
    assert (found.verdict, found.estimate, found.n) == ("reproduced", 1.0, 7)
    found = verdict(claim(FIRST, {"above": 0.5}), runs({**ARMS, "seed": range(7)}, steps=[b, a]))
    assert (found.verdict, found.estimate) == ("contradicted", 0.0)


def test_seeds_in_which_neither_comes_decide_nothing(claim, runs) -> None:
    a = np.array([np.nan, np.nan, 5, 5, 1, 1, 1, 1.0])
    b = np.array([np.nan, np.nan, 5, 5, 2, 2, 2, 2.0])
    found = verdict(claim(FIRST, {"above": 0.5}), runs({**ARMS, "seed": range(8)}, steps=[a, b]))
    assert (found.estimate, found.verdict) == (1.0, "inconclusive")
    assert found.interval[0] == pytest.approx(0.025**0.25), "four seeds decide"
    assert found.n == 4
    assert found.reason.endswith("; in 4 of 8 seeds neither comes first.")
    never = np.full((2, 8), np.nan)
    found = verdict(claim(FIRST, {"above": 0.5}), runs({**ARMS, "seed": range(8)}, steps=never))
    assert found.reason == "In none of 8 seeds does one of the two come first."


def curves(x: Any, y: Any) -> tuple[list[float], list[float]]:
    return list(map(float, x)), list(map(float, y))


def test_arms_are_compared_where_both_have_come_equally_far(claim, runs, random) -> None:
    table = runs({**ARMS, "seed": range(5)}).astype({"reason": object})
    far = {"a": np.linspace(2, 0.5, 7), "b": np.linspace(2, 0.1, 12)}
    lift = {seed: 0.3 + 0.01 * random.normal() for seed in range(5)}
    both = [
        curves(far[arm], -far[arm] + (lift[seed] if arm == "a" else 0))
        for arm, seed in zip(table["arm"], table["seed"], strict=True)
    ]
    table["loss"], table["gap"] = [x for x, _ in both], [y for _, y in both]
    found = verdict(claim(EQUAL, {"above": 0}), table)
    assert (found.verdict, found.n) == ("reproduced", 5)
    assert found.estimate == pytest.approx(np.mean(list(lift.values())), abs=1e-9)
    ends = {arm: y[-1] for arm, (_, y) in zip(table["arm"], both, strict=True)}
    assert ends["a"] < ends["b"], "at the end of both runs it looks the other way"


def test_the_common_range_is_taken_at_the_last_time() -> None:
    x, y = np.array([3.0, 1.0, 2.0, 0.5]), np.array([0.0, 0.0, 6.0, 6.0])
    assert difference_over_common_range(x, y, np.array([1.5, 1.0]), np.zeros(2)) == pytest.approx(6.0)
    assert np.isnan(difference_over_common_range(x, y, np.array([0.4, 0.1]), np.zeros(2)))
    assert difference_over_common_range(x, y, np.array([0.5]), np.array([1.0])) == pytest.approx(5.0)


def test_a_curve_that_comes_back_jumps_where_it_turns() -> None:
    x, y = np.array([4.0, 1.0, 2.0]), np.array([0.0, 0.0, 9.0])  # for the last time: 0 from 2 to 4, 0 to 9 before
    assert difference_over_common_range(x, y, np.array([0.0, 5.0]), np.zeros(2)) == pytest.approx(4.5 / 3)


def test_arms_that_never_come_equally_far_are_said(claim, runs) -> None:
    table = runs({**ARMS, "seed": range(5)})
    table["loss"] = [[2.0, 1.0] if arm == "a" else [0.5, 0.1] for arm in table["arm"]]
    table["gap"] = [[1.0, 2.0]] * 10
    found = verdict(claim(EQUAL, {"above": 0}), table)
    assert found.reason == "In 5 of 5 seeds the arms never have the same loss."
    with pytest.raises(UserError, match="metric loss holds no curve"):
        verdict(claim(EQUAL, {"above": 0}), table.assign(loss=1.0))


def test_divergence_is_an_outcome_that_a_claim_can_speak_of(claim, runs) -> None:
    table = runs({"seed": range(8)}, loss=1.0)
    table["regime_reached"] = table["regime_reached"].astype(object)
    table.loc[1:, ["outcome", "regime_reached"]] = ["diverged", np.nan]
    found = verdict(claim({"kind": "proportion", "metric": "diverged"}, {"above": 0.4}), table)
    assert (found.verdict, found.estimate) == ("reproduced", 7 / 8)


@pytest.mark.parametrize(
    ("shift", "judgement"), [(2.0, "as reported"), (0.2, "smaller"), (9.0, "larger"), (-3.0, "opposite")]
)
def test_an_effect_is_held_against_the_reported_size(claim, runs, shift: float, judgement: str) -> None:
    loss = shift + np.array([-0.1, -0.05, 0.0, 0.05, 0.1])
    reported = {"reported": 2.3, "factor": 2, "standard_error": 0.2}
    mean = {"kind": "mean", "metric": "loss"}
    found = verdict(claim(mean, {"above": 0}, size=reported), runs({"seed": range(5)}, loss=loss))
    assert found.size["judgement"] == judgement
    assert found.size["ratio"] == pytest.approx(shift / 2.3)
    assert found.size["predicted"] is (judgement == "as reported")
    if judgement == "smaller":
        assert (found.verdict, found.size["text"][:5]) == ("reproduced", "0.087")
