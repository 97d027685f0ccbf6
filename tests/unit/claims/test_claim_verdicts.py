"""Verdicts on made-up runs: each check in its order, with the sentence that it gives."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from common.claims import Verdict, expected_false_verdicts, rule_text
from common.claims.association import correlation, difference, slope
from common.claims.parts import parts
from common.errors import UserError
from common.files import as_json
from tests.unit.claims.conftest import verdict

PAIRED = {"kind": "paired_difference", "metric": "loss", "of": {"arm": "a"}, "minus": {"arm": "b"}}
MEAN = {"kind": "mean", "metric": "loss"}
RELATED = {"kind": "correlation", "x": "loss", "y": "gap", "over": ["size"], "within": "seed"}
RISING = [1.0, 1.1, 1.2, 1.3, 1.4]
SIZES = [4, 8, 16, 32, 64, 128]


def samples(stream: np.random.Generator, kind: str, effect: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Axes and metrics in which the quantity of each kind of estimate has an effect of this size and sign."""
    noise = stream.normal(size=(6, 5))
    sizes = np.log2(SIZES)[:, None] - 4.5
    if kind in ("mean", "paired_difference"):
        common = 10 if kind == "paired_difference" else 0
        loss = 0.1 * stream.normal(size=(2, 5)) + np.array([effect, 0.0])[:, None] + common
        return {"arm": ["a", "b"], "seed": range(5)}, {"loss": loss}
    axes = {"size": SIZES, "seed": range(5)}
    if kind == "worst_case":
        return axes, {"loss": effect + 0.1 * noise}
    if kind == "difference_of_correlations":
        gap = sizes + 0.01 * noise
        unrelated = np.array([0.4, -1.0, 0.9, -0.8, 1.0, -0.5])[:, None] + 0.01 * stream.normal(size=(6, 5))
        first, second = (gap, unrelated) if effect > 0 else (unrelated, gap)
        return axes, {"loss": first, "other": second, "gap": gap + 0.01 * noise.T.reshape(6, 5)}
    return axes, {"loss": sizes + 0.1 * noise, "gap": effect * sizes + 0.1 * stream.normal(size=(6, 5))}


ESTIMATES: dict[str, dict[str, Any]] = {
    "mean": {**MEAN, "where": {"arm": "a"}},
    "paired_difference": PAIRED,
    "worst_case": {"kind": "worst_case", "metric": "loss", "over": "size"},
    "correlation": RELATED,
    "slope": {"kind": "slope", "x": "loss", "y": "gap", "over": "size"},
    "difference_of_correlations": {"kind": "difference_of_correlations", "of": {"x": "loss", "y": "gap"},
                                   "minus": {"x": "other", "y": "gap"}, "over": "size"},
}  # fmt: skip


@pytest.mark.parametrize("kind", ESTIMATES)
def test_true_effect_is_reproduced_and_its_opposite_contradicted(claim, runs, random, kind: str) -> None:
    for effect, accept, expected in [
        (2.0, {"above": 0}, "reproduced"),
        (2.0, {"below": 0}, "contradicted"),
        (-2.0, {"below": 0}, "reproduced"),
        (-2.0, {"above": 0}, "contradicted"),
    ]:
        axes, metrics = samples(random, kind, effect)
        found = verdict(claim(ESTIMATES[kind], accept), runs(axes, **metrics))
        assert (found.verdict, found.n) == (expected, 5), found.reason
        low, high = found.interval
        assert low <= found.estimate <= high


def test_noise_is_inconclusive(claim, runs, random) -> None:
    axes = {"size": SIZES, "seed": range(5)}
    table = runs(axes, loss=random.normal(size=(6, 5)), gap=random.normal(size=(6, 5)))
    found = verdict(claim(RELATED, {"above": 0}), table)
    assert found.verdict == "inconclusive"
    assert found.reason.startswith("The interval [")
    centred = random.normal(size=5)
    table = runs({"seed": range(5)}, loss=centred - centred.mean() + 0.05)
    assert verdict(claim(MEAN, {"above": 0}), table).verdict == "inconclusive"


def test_verdict_uses_the_calibrated_intervals(claim, runs, random) -> None:
    axes = {"size": SIZES, "seed": range(5)}
    x, y, z = random.normal(size=(3, 6, 5))
    table = runs(axes, loss=x, gap=y, other=z).sample(frac=1, random_state=0)
    shared = {"over": "size"}
    direct = {
        "correlation": correlation(x.T, y.T, (6,), method="spearman", given=z.T[..., None]),
        "slope": slope(x.T, y.T, (6,), given=z.T[..., None]),
    }
    for kind, bounds in direct.items():
        estimate = {"kind": kind, "x": "loss", "y": "gap", "given": "other", **shared}
        found = verdict(claim(estimate, {"above": 0}), table)
        np.testing.assert_allclose([found.estimate, *found.interval], [bounds.estimate, bounds.low, bounds.high])
    bounds = difference((x.T, y.T), (z.T, y.T), (6,), method="spearman")
    found = verdict(claim(ESTIMATES["difference_of_correlations"], {"above": 0}), table)
    np.testing.assert_allclose([found.estimate, *found.interval], [bounds.estimate, bounds.low, bounds.high])


def test_two_seeds_are_not_decidable(claim, runs) -> None:
    found = verdict(claim(MEAN, {"above": 0}), runs({"seed": range(2)}, loss=[1.0, 1.1]))
    assert found.verdict == "not decidable at this scale"
    assert (found.n, found.reason) == (2, "n = 2 seeds, and 5 are needed.")
    assert found.estimate == pytest.approx(1.05)


def test_n_counts_seeds_not_settings(claim, runs, random) -> None:
    table = runs({"size": SIZES, "seed": range(4)}, loss=random.normal(size=(6, 4)))
    found = verdict(claim({**MEAN, "over": "size"}, {"above": 0}), table)
    assert (found.n, found.verdict) == (4, "not decidable at this scale")


def test_five_settings_do_not_decide_a_correlation(claim, runs, random) -> None:
    axes = {"size": SIZES[:5], "seed": range(5)}
    table = runs(axes, loss=random.normal(size=(5, 5)), gap=random.normal(size=(5, 5)))
    found = verdict(claim(RELATED, {"above": 0}), table)
    assert (found.verdict, found.reason) == ("not decidable at this scale", "5 settings, and 6 are needed.")


def test_scale_below_the_decidable_one_is_not_decidable(claim, runs) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    found = verdict(claim(MEAN, {"above": 0}, decidable_from="workstation"), table, "laptop")
    assert found.verdict == "not decidable at this scale"
    assert found.reason == "Decidable from scale workstation, these runs are of scale laptop."
    assert verdict(claim(MEAN, {"above": 0}, decidable_from="workstation"), table, "paper").verdict == "reproduced"


@pytest.mark.parametrize(
    ("kind", "values", "reached", "said"),
    [
        ("exact", [3, 1, 2, 4, 5], [True, True, False, True, True], "contradicted"),
        ("exact", [3, 1, 2, 4, 5], [True, False, True, True, True], "not decidable at this scale"),
        ("exact", [3, 2, 2, 4, 5], [True, True, False, True, True], "not decidable at this scale"),
        ("exact", [3, 1, 2, 4, 5], [False, False, False, False, False], "not decidable at this scale"),
        ("measured", [3, 1, 2, 4, 5], [True, True, False, True, True], "contradicted"),
        ("mean", [0.3, 0.1, 0.2, 0.4, 0.5], [True, True, False, True, True], "not decidable at this scale"),
    ],
)
def test_one_run_in_its_regime_contradicts_what_is_said_of_every_run(claim, runs, kind, values, reached, said) -> None:
    table = runs({"seed": range(5)}, loss=values, error=[0.1] * 5).assign(regime_reached=reached)
    estimate: dict[str, Any] = {"kind": kind, "metric": "loss"}
    if kind != "mean":
        estimate["over"] = ["seed"]
    if kind == "measured":
        estimate["error"] = "error"
    found = verdict(claim(estimate, {"above": 1.5}), table)
    assert found.verdict == said
    if said == "contradicted":
        assert found.reason.startswith(
            "1, of a run in its regime, lies outside the accepted region (above 1.5); regime not"
        )
        assert found.estimate == 1


@pytest.mark.parametrize("value", [False, "no", "False", 0.5])
def test_regime_that_is_not_reached_or_neither_true_nor_false_is_not_decidable(claim, runs, value: object) -> None:
    table = runs({"seed": range(5)}, loss=RISING).astype({"regime_reached": object})
    table.loc[3, "regime_reached"] = value
    found = verdict(claim(MEAN, {"above": 0}), table)
    assert found.verdict == "not decidable at this scale"
    odd = f"regime_reached holds {value!r}, which is neither true nor false."
    assert found.reason == ("Regime not reached in 1 of 5 runs." if value is False else odd)


@pytest.mark.parametrize(
    ("most", "outside", "said", "why"),
    [
        (0, [6], "not decidable at this scale", "Regime not reached in 1 of 7 runs."),
        (1, [6], "reproduced", "; 1 of 7 seeds missed their regime, as 1 may."),
        (2, [5, 6], "reproduced", "; 2 of 7 seeds missed their regime, as 2 may."),
        (1, [5, 6], "not decidable at this scale", "Regime not reached in 2 of 7 runs."),
        (3, [0, 5, 6], "not decidable at this scale", "n = 4 seeds, and 5 are needed."),
    ],
)
@pytest.mark.parametrize("value", [False, np.nan])
def test_as_many_seeds_as_may_are_left_out_where_they_miss_their_regime(
    claim, runs, value: object, most: int, outside: list[int], said: str, why: str
) -> None:
    losses = np.array([*RISING, 1.5, 1.6])
    losses[outside] = -1000
    table = runs({"seed": range(7)}, loss=losses).astype({"regime_reached": object})
    table.loc[outside, "regime_reached"] = value
    rule = claim(MEAN, {"above": 0}, may_miss_regime=most)
    found = verdict(rule, table)
    assert found.verdict == said
    assert found.reason.endswith(why)
    if said == "reproduced":
        assert found.n == 7 - len(outside)
        assert found.estimate == pytest.approx(np.delete(losses, outside).mean())
        left_out = {part.label: part.left_out for part in parts(rule, table, scale="laptop") if not part.counts}
        assert left_out == {str(seed): "outside its regime" for seed in outside}


def test_a_seed_of_which_one_arm_misses_its_regime_is_left_out_of_both(claim, runs) -> None:
    table = runs({"arm": ["a", "b"], "seed": range(6)}, loss=[[1, 2, 3, 4, 5, 9], [0, 0.1, 0.2, 0, 0.1, 99]])
    table = table.astype({"regime_reached": object})
    table.loc[(table["arm"] == "b") & (table["seed"] == 5), "regime_reached"] = False
    found = verdict(claim(PAIRED, {"above": 0}, may_miss_regime=1), table)
    assert (found.verdict, found.n) == ("reproduced", 5)
    assert found.estimate == pytest.approx((15 - 0.4) / 5)


def test_what_diverged_is_left_out_if_its_metrics_say_so_and_what_has_an_odd_regime_never(claim, runs) -> None:
    table = runs({"seed": range(7)}, loss=[*RISING, 6, -50.0]).astype({"regime_reached": object})
    table.loc[6, ["outcome", "regime_reached"]] = ["diverged", np.nan]
    assert verdict(claim(MEAN, {"above": 0}, may_miss_regime=2), table).n == 7
    table.loc[6, "regime_reached"] = False
    assert verdict(claim(MEAN, {"above": 0}, may_miss_regime=2), table).n == 6
    table.loc[6, ["outcome", "regime_reached"]] = ["completed", "no"]
    found = verdict(claim(MEAN, {"above": 0}, may_miss_regime=2), table)
    assert found.reason == "regime_reached holds 'no', which is neither true nor false."


def test_diverged_runs_are_counted_and_never_dropped(claim, runs) -> None:
    table = runs({"seed": range(7)}, loss=[*RISING, np.nan, np.nan]).astype({"regime_reached": object})
    table.loc[5:, ["outcome", "regime_reached"]] = ["diverged", np.nan]
    found = verdict(claim(MEAN, {"above": 0}), table)
    assert found.verdict == "not decidable at this scale"
    assert (found.n, found.reason) == (7, "2 of 7 runs diverged, and loss gives them no value.")
    table.loc[5:, "loss"] = [-50.0, -60.0]
    found = verdict(claim(MEAN, {"above": 0}), table)
    assert (found.verdict, found.n) == ("inconclusive", 7)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("diverged", "5 of 5 runs diverged, and loss gives them no value."),
        ("completed", "The metrics of these runs could not be computed."),
    ],
)
def test_runs_without_any_metric_say_why(claim, runs, outcome: str, reason: str) -> None:
    found = verdict(
        claim(MEAN, {"above": 0}), runs({"seed": range(5)}).drop(columns="regime_reached").assign(outcome=outcome)
    )
    assert (found.verdict, found.reason) == ("not decidable at this scale", reason)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_completed_run_without_a_finite_value_is_not_decidable(claim, runs, value: float) -> None:
    found = verdict(claim(MEAN, {"above": 0}), runs({"seed": range(5)}, loss=[1.0, 1.1, value, 1.3, 1.4]))
    assert found.verdict == "not decidable at this scale"
    assert found.reason == "No finite value of loss in 1 of 5 runs."


def test_nothing_completed_is_not_run_with_its_reasons(claim, runs) -> None:
    table = runs({"arm": ["a", "b"], "seed": range(2)}, loss=np.nan)
    table["outcome"] = ["unfinished", "unfinished", "unfinished", "data_unavailable"]
    table["reason"] = [None, "time is up", "time is up", "no source"]
    found = verdict(claim(PAIRED, {"above": 0}, decidable_from="paper"), table, "smoke")
    assert (found.verdict, found.estimate, found.interval) == ("not run", None, None)
    assert found.reason == "None of the 4 runs needed is complete: 3 unfinished, 1 data unavailable (time is up)."


def test_value_that_a_scale_leaves_out_is_not_run(claim, runs) -> None:
    table = runs({"arm": ["a", "c"], "seed": range(5)}, loss=1.0)
    found = verdict(claim(PAIRED, {"above": 0}), table)
    assert (found.verdict, found.reason) == ("not run", "sweep has no run with arm=b at scale laptop.")
    empty = verdict(claim(MEAN, {"above": 0}), table.iloc[:0])
    assert (empty.verdict, empty.reason) == ("not run", "sweep has no run at scale laptop.")


def test_pair_without_its_partner_is_left_out_and_said(claim, runs, random) -> None:
    table = runs(
        {"arm": ["a", "b"], "seed": range(6)}, loss=np.array([[5.0], [1.0]]) + 0.1 * random.normal(size=(2, 6))
    )
    table.loc[table["run"] == "arm=b,seed=3", ["outcome", "loss"]] = ["failed", np.nan]
    found = verdict(claim(PAIRED, {"above": 0}), table)
    assert (found.verdict, found.n) == ("reproduced", 5)
    assert found.reason.endswith("; left out are 1 of 6 seeds (1 failed).")
    table.loc[table["run"] == "arm=b,seed=4", "outcome"] = "missing"
    found = verdict(claim(PAIRED, {"above": 0}), table)
    assert found.reason == "n = 4 seeds, and 5 are needed; of 6 planned 2 are left out (1 failed, 1 missing)."


def test_seeds_without_spread_are_refused(claim, runs, random) -> None:
    found = verdict(claim(MEAN, {"above": 0}), runs({"seed": range(5)}, loss=0.3))
    assert found.verdict == "not decidable at this scale"
    assert found.reason == (
        "Zero spread: all 5 seeds give 0.3, which gives no interval; a deterministic number is an exact claim."
    )
    seeds = random.normal(size=5)
    table = runs({"arm": ["a", "b"], "seed": range(5)}, loss=np.array([seeds + 0.1, seeds]))
    assert verdict(claim(PAIRED, {"above": 0}), table).reason.startswith("Zero spread: all 5 seeds give 0.1")
    same = random.normal(size=(2, 6, 1))
    table = runs({"size": SIZES, "seed": range(5)}, loss=same[0], gap=same[1])
    assert verdict(claim(RELATED, {"above": 0}), table).reason.startswith("Zero spread: every seed gives the same loss")


def test_trend_that_every_seed_shows_is_no_zero_spread(claim, runs, random) -> None:
    table = runs({"size": SIZES, "seed": range(5)}, gap=np.arange(6)[:, None] + 0.1 * random.random(size=(6, 5)))
    found = verdict(claim({**RELATED, "x": "size"}, {"above": 0}), table)
    assert (found.verdict, found.estimate) == ("reproduced", pytest.approx(1))
    assert found.interval[0] < 0.9, "six settings cannot show that the correlation is perfect"


def test_quantity_that_does_not_vary_over_settings_is_not_decidable(claim, runs, random) -> None:
    table = runs({"size": SIZES, "seed": range(5)}, loss=random.normal(size=(6, 5)), gap=random.normal(size=5))
    found = verdict(claim(RELATED, {"above": 0}), table)
    assert found.reason == "No variation of gap over the settings in 5 of 5 seeds."
    table["gap"] = 2 * table["loss"] + 1
    table["other"] = random.normal(size=30)
    found = verdict(claim({**RELATED, "given": "loss", "x": "other"}, {"above": 0}), table)
    assert found.reason == "No variation of gap over the settings beyond what loss gives in 5 of 5 seeds."
    table["gap"], table["same"] = random.normal(size=30), 1.0
    found = verdict(claim({**RELATED, "given": "same"}, {"above": 0}), table)
    assert (found.verdict, found.estimate) == ("not decidable at this scale", None)
    assert found.reason == "No variation of same, given, over the settings in 5 of 5 seeds."
    table["twice"] = 2 * table["other"]
    wide = {**RELATED, "given": ["other", "twice"]}
    found = verdict(claim(wide, {"above": 0}), table)
    assert (
        found.reason
        == "No variation of each beside the others of other, twice, given, over the settings in 5 of 5 seeds."
    )


def test_axes_that_go_together_are_one_and_a_grid_with_holes_is_refused(claim, runs, random) -> None:
    table = runs({"size": SIZES, "seed": range(5)}, loss=random.normal(size=(6, 5)), gap=random.normal(size=(6, 5)))
    expected = verdict(claim(RELATED, {"above": 0}), table)
    zipped = table.assign(
        rate=table["size"] / 1000,
        run=[f"rate={s / 1000},{r}" for s, r in zip(table["size"], table["run"], strict=True)],
    )
    found = verdict(claim({**RELATED, "over": ["size", "rate"]}, {"above": 0}), zipped)
    assert found.interval == pytest.approx(expected.interval)
    shape = (3, 3, 5)
    grid = runs(
        {"size": SIZES[:3], "rate": [1, 2, 3], "seed": range(5)},
        loss=random.normal(size=shape),
        gap=random.normal(size=shape),
    )
    holed = grid[~((grid["size"] == 4) & (grid["rate"] == 1))]
    found = verdict(claim({**RELATED, "over": ["size", "rate"]}, {"above": 0}), holed)
    assert found.reason == "The settings do not fill the grid of size, rate: fix one of these axes in where."


def test_share_of_five_in_five_has_width(claim, runs) -> None:
    table = runs({"seed": range(5)}, reached=True)
    found = verdict(claim({"kind": "proportion", "metric": "reached"}, {"above": 0.4}), table)
    assert (found.verdict, found.estimate) == ("reproduced", 1.0)
    assert found.interval == (pytest.approx(0.025 ** (1 / 5)), 1.0)


@pytest.mark.parametrize(
    ("accept", "hits", "found"),
    [
        ({"above": 0.5}, 5, "not decidable at this scale"),
        ({"above": 0.5}, 3, "not decidable at this scale"),
        ({"above": 0.6}, 0, "contradicted"),
        ({"below": 0.5}, 0, "not decidable at this scale"),
        ({"above": 0.4}, 3, "inconclusive"),
    ],
)
def test_a_share_that_so_few_seeds_cannot_show_is_not_decidable(claim, runs, accept, hits, found) -> None:
    table = runs({"seed": range(5)}, reached=np.arange(5) < hits)
    judged = verdict(claim({"kind": "proportion", "metric": "reached"}, accept), table)
    assert judged.verdict == found
    if found.startswith("not"):
        extreme = "even 5 of 5 would give [0.478, 1]" if "above" in accept else "even 0 of 5 would give [0, 0.522]"
        assert judged.reason.startswith(f"n = 5 seeds, and {extreme}, which does not lie ")


@pytest.mark.parametrize(("seeds", "found"), [(5, "not decidable at this scale"), (50, "inconclusive")])
def test_a_share_between_two_bounds_is_out_of_reach_of_few_seeds_alone(claim, runs, seeds, found) -> None:
    table = runs({"seed": range(seeds)}, reached=np.arange(seeds) < seeds // 5)
    judged = verdict(claim({"kind": "proportion", "metric": "reached"}, {"within": [0.2, 0.8]}), table)
    assert judged.verdict == found


def test_share_over_settings_counts_a_seed_only_if_every_setting_has_it(claim, runs) -> None:
    reached = np.ones((2, 5))
    reached[1, 0] = 0
    table = runs({"size": [1, 2], "seed": range(5)}, reached=reached)
    found = verdict(claim({"kind": "proportion", "metric": "reached", "over": "size"}, {"above": 0.1}), table)
    assert (found.estimate, found.n) == (pytest.approx(0.8), 5)


def test_worst_case_judges_the_worst_setting_and_not_the_average(claim, runs, random) -> None:
    loss = np.array([0.1, 0.2, 3.0])[:, None] + 0.01 * random.normal(size=(3, 5))
    table = runs({"size": [1, 2, 3], "seed": range(5)}, loss=loss)
    worst = {"kind": "worst_case", "metric": "loss", "over": "size"}
    assert verdict(claim({**MEAN, "over": "size"}, {"below": 2}), table).verdict == "reproduced"
    below = verdict(claim(worst, {"below": 2}), table)
    assert (below.verdict, below.estimate) == ("contradicted", pytest.approx(3.0, abs=0.05))
    above = verdict(claim(worst, {"above": 0.5}), table)
    assert (above.verdict, above.estimate) == ("contradicted", pytest.approx(0.1, abs=0.05))


@pytest.mark.parametrize(
    ("value", "expected"), [(1.0, "reproduced"), (1.095, "inconclusive"), (1.2, "contradicted"), (0.8, "contradicted")]
)
def test_exact_value_is_judged_with_its_tolerance_and_has_no_n(claim, runs, value: float, expected: str) -> None:
    table = runs({"size": [1, 2]}, bound=[value, 1.0])
    exact = {"kind": "exact", "metric": "bound", "over": "size", "tolerance": 0.01}
    found = verdict(claim(exact, {"within": [0.9, 1.1]}), table)
    assert (found.verdict, found.n, found.estimate) == (expected, None, pytest.approx(value))
    assert found.interval == pytest.approx((value - 0.01, value + 0.01))


@pytest.mark.parametrize(
    ("values", "errors", "expected", "judged"),
    [
        ([0.02, -0.03], [0.01, 0.02], "reproduced", -0.03),
        ([0.02, 0.01], [0.01, 0.44], "inconclusive", 0.01),  # the better agreement is the less certain one
        ([0.3, 0.05], [0.05, 0.4], "contradicted", 0.3),  # one that surely lies outside, whatever another may do
    ],
)
def test_measured_values_are_judged_each_by_its_own_error(claim, runs, values, errors, expected, judged) -> None:
    table = runs({"seed": [0, 1]}, gap=values, gap_error=errors)
    rule = {"kind": "measured", "metric": "gap", "error": "gap_error", "over": "seed"}
    found = verdict(claim(rule, {"within": [-0.1, 0.1]}), table)
    assert (found.verdict, found.n, found.estimate) == (expected, None, judged)
    half = 2.2414 * errors[values.index(judged)]  # the normal quantile at 2.5 % / 2
    assert found.interval == pytest.approx((judged - half, judged + half), rel=1e-4)


def test_of_many_measured_values_at_the_boundary_chance_contradicts_few(claim, runs, random) -> None:
    rule = claim({"kind": "measured", "metric": "gap", "error": "gap_error", "over": "seed"}, {"above": 0.0})
    draws = [runs({"seed": range(20)}, gap=random.normal(size=20), gap_error=np.ones(20)) for _ in range(200)]
    assert sum(verdict(rule, table).verdict == "contradicted" for table in draws) <= 13  # 5 expected at 2.5 %


def test_exact_claim_waits_for_all_its_runs(claim, runs) -> None:
    table = runs({"size": [1, 2]}, bound=[1.0, np.nan])
    table.loc[1, "outcome"] = "unfinished"
    found = verdict(claim({"kind": "exact", "metric": "bound", "over": "size"}, {"above": 0}), table)
    assert found.verdict == "not decidable at this scale"
    assert found.reason == "Some of the runs needed have no result (1 unfinished)."


def test_null_result_within_the_smallest_effect_is_contradicted(claim, runs) -> None:
    loss = np.array([-1.0, 1.0, 0.5, -0.5, 0.0]) * 1e-3
    table = runs({"seed": range(5)}, loss=loss)
    assert verdict(claim(MEAN, {"above": 0}), table).verdict == "inconclusive"
    found = verdict(claim(MEAN, {"above": 0}, smallest_effect=0.01), table)
    assert found.verdict == "contradicted"
    assert found.reason.endswith("excludes an effect above 0 as large as 0.01.")
    assert verdict(claim(MEAN, {"above": 0}, smallest_effect=0.0001), table).verdict == "inconclusive"
    small = verdict(claim(MEAN, {"above": 0}, smallest_effect=0.01), runs({"seed": range(5)}, loss=loss + 0.004))
    assert small.verdict == "reproduced"
    assert small.reason.endswith("though the effect is smaller than 0.01.")


def test_an_interval_that_excludes_the_stated_direction_contradicts_however_far_it_reaches_the_other_way(
    claim, runs
) -> None:
    table = runs({"seed": range(5)}, loss=[-0.4, -0.2, -0.1, 0.05, 0.1])
    found = verdict(claim(MEAN, {"above": 0}, smallest_effect=0.2), table)
    assert found.interval[0] < -0.2 < 0 < found.interval[1] < 0.2
    assert found.verdict == "contradicted"
    assert verdict(claim(MEAN, {"below": 0}, smallest_effect=0.2), table).verdict == "inconclusive"


def test_where_keeps_only_its_runs(claim, runs, random) -> None:
    loss = np.array([1.0, -1.0])[:, None] + 0.01 * random.normal(size=(2, 5))
    table = runs({"rate": [0.1, 0.5], "seed": range(5)}, loss=loss)
    assert verdict(claim({**MEAN, "where": {"rate": 0.5}}, {"below": 0}), table).verdict == "reproduced"
    labelled = table.assign(rate=table["rate"].astype(str))
    assert verdict(claim({**MEAN, "where": {"rate": 0.1}}, {"above": 0}), labelled).verdict == "reproduced"


def test_unnamed_axis_is_an_error(claim, runs) -> None:
    table = runs({"arm": ["a", "b"], "size": [1], "seed": range(5)}, loss=1.0)
    with pytest.raises(UserError, match="claim made-up: axis size of sweep is neither named nor in over"):
        verdict(claim(PAIRED, {"above": 0}), table)


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        ({**MEAN, "metric": "lose", "over": "size"}, r"sweep has no metric lose \(did you mean loss\? known: .*\)"),
        ({**MEAN, "over": "sise"}, r"sweep has no axis sise \(did you mean size\?"),
        ({"kind": "proportion", "metric": "loss", "over": "size"}, "zeros and ones, and one run has 2"),
        ({**RELATED, "y": "label"}, "metric label holds text, not numbers"),
    ],
)
def test_claim_that_does_not_fit_its_experiment_is_an_error(claim, runs, estimate: Any, message: str) -> None:
    table = runs({"size": SIZES, "seed": range(5)}, loss=2.0, label="x")
    with pytest.raises(UserError, match=f"claim made-up: .*{message}"):
        verdict(claim(estimate, {"above": 0}), table)


def test_axis_of_labels_is_no_quantity(claim, runs, random) -> None:
    table = runs({"arm": list("abcdef"), "seed": range(5)}, gap=random.normal(size=(6, 5)))
    with pytest.raises(UserError, match="axis arm has labels"):
        verdict(claim({"kind": "correlation", "x": "arm", "y": "gap"}, {"above": 0}), table)


def test_verdict_in_json_has_every_field_of_the_ledger(claim, runs, random) -> None:
    amended = {"date": "2026-01-02", "reason": "the metric was wrong"}
    made = claim(PAIRED, {"below": 0}, amended=amended, unit="nats", smallest_effect=0.1, polarity="control")
    found = verdict(made, runs({"arm": ["a", "b"], "seed": range(5)}, loss=random.normal(size=(2, 5)))).to_json()
    assert set(found) == {field.name for field in fields(Verdict)} - {"commit", "rule_commit", "decided_by"}
    assert as_json(found)
    assert found["accept"] == {"below": 0.0}
    assert found["amended"] == [amended]
    assert found["source"] == {"document": "someone2020", "locator": "Fig. 1", "reported": None}
    assert found["confidence"] == 0.95
    assert found["rule"] == rule_text(made)


def test_expected_false_verdicts_count_judged_claims_over_seeds(claim, runs, random) -> None:
    judged = verdict(claim(MEAN, {"above": 0}), runs({"seed": range(5)}, loss=random.normal(size=5)))
    few = verdict(claim(MEAN, {"above": 0}), runs({"seed": range(2)}, loss=[1.0, 2.0]))
    exact = verdict(
        claim({"kind": "exact", "metric": "loss"}, {"above": 0}), runs({"size": [1]}, loss=1.0).drop(columns="size")
    )
    assert exact.verdict == "reproduced"
    assert expected_false_verdicts([judged, judged, few, exact]) == pytest.approx(0.05)
