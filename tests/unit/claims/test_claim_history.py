"""Rules that changed after results: the former verdict beside the present one, fresh seeds, and verdicts that turn."""

import pytest

from tests.unit.claims.conftest import verdict

MEAN = {"kind": "mean", "metric": "loss"}
RISING = [1.0, 1.1, 1.2, 1.3, 1.4]
WHY = {"date": "2026-01-02", "reason": "after a look"}


def test_a_moved_boundary_shows_both_verdicts(claim, runs) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    moved = {**WHY, "former": {"accept": {"above": 2}}, "seen": {"laptop": [0, 1, 2, 3, 4]}}
    found = verdict(claim(MEAN, {"above": 0}, amended=moved), table)
    assert (found.verdict, found.seen) == ("reproduced", [0, 1, 2, 3, 4])
    (former,) = found.former
    assert (former["verdict"], former["rule"]) == ("contradicted", "mean of loss, above 2")


def test_former_rules_are_undone_one_by_one(claim) -> None:
    first = {**WHY, "former": {"accept": {"above": 2}, "smallest_effect": None}}
    second = {**WHY, "former": {"estimate": {**MEAN, "metric": "gap"}}}
    present = claim(MEAN, {"above": 0}, smallest_effect=0.1, amended=[first, second])
    oldest, middle = (before for _, before in present.former())
    assert (oldest.estimate.metric, oldest.accept.above, oldest.smallest_effect) == ("gap", 2, None)
    assert (middle.estimate.metric, middle.accept.above, middle.smallest_effect) == ("gap", 0, 0.1)


def test_a_former_rule_may_read_what_is_gone(claim, runs) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    gone = {**WHY, "former": {"estimate": {**MEAN, "metric": "lost"}}}
    (former,) = verdict(claim(MEAN, {"above": 0}, amended=gone), table).former
    assert (former["verdict"], former["reason"]) == (None, "It reads what is no longer measured.")


@pytest.mark.parametrize(
    ("former", "text", "reason"),
    [
        (
            {"settings": "seeds of batch 32", "statement": "It held."},
            "statement “It held.”; settings seeds of batch 32",
            "It asked for other settings; what decides is as it was.",
        ),
        (
            {"metrics": "judged up to an error of 20 %", "size": {"reported": 3}},
            "size 3 to a factor of 2; metrics judged up to an error of 20 %",
            "Its numbers were made otherwise, and these are made as now.",
        ),
    ],
)
def test_what_decides_nothing_on_these_runs_is_kept_without_a_verdict(
    claim, runs, former: dict[str, str], text: str, reason: str
) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    (kept,) = verdict(claim(MEAN, {"above": 0}, amended={**WHY, "former": former}), table).former
    assert kept == {"date": "2026-01-02", "rule": text, "verdict": None, "reason": reason}


@pytest.mark.parametrize("former", [{"statement": "It held."}, {"nature": "theorem"}, {"id": "held"}])
def test_other_words_say_nothing_of_the_runs(claim, runs, former: dict[str, str]) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    assert verdict(claim(MEAN, {"above": 0}, amended={**WHY, "former": former}), table).former == []


def test_a_rule_that_changed_with_its_statement_is_judged_and_both_are_kept(claim, runs) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    was = {"statement": "It is large.", "nature": "theorem", "accept": {"above": 2}, "polarity": "our_finding"}
    changed = claim(MEAN, {"above": 0}, amended={**WHY, "former": was})
    (kept,) = verdict(changed, table).former
    assert kept["verdict"] == "contradicted"
    assert kept["rule"] == "mean of loss, above 2; statement “It is large.”; nature theorem; polarity our_finding"
    ((_, before),) = changed.former()
    assert (before.statement, before.nature) == ("It is large.", "theorem")


def test_seeds_that_nobody_had_seen_decide_alone_once_there_are_five(claim, runs) -> None:
    loss = [-1.0, -1.1, -1.2, -1.3, -1.4, 1.0, 1.1, 1.2, 1.3]
    changed = claim(MEAN, {"above": 0}, amended={**WHY, "seen": {"laptop": [0, 1, 2, 3, 4]}})
    found = verdict(changed, runs({"seed": range(9)}, loss=loss))
    assert (found.n, found.seen) == (9, [0, 1, 2, 3, 4])
    found = verdict(changed, runs({"seed": range(10)}, loss=[*loss, 1.4]))
    assert (found.n, found.seen, found.verdict) == (5, [], "reproduced")


def test_a_verdict_that_one_seed_turns_is_marked(claim, runs) -> None:
    steady = runs({"seed": range(6)}, loss=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert verdict(claim(MEAN, {"above": 0}), steady).turns_without == []
    narrow = runs({"seed": range(6)}, loss=[0.1, 0.9, 1.0, 1.1, 1.2, 1.3])
    found = verdict(claim(MEAN, {"above": 0.45}), narrow)
    assert found.verdict == "reproduced"
    assert found.turns_without, "with five seeds the interval is wider"
    assert 0 not in found.turns_without, "without the lowest seed it is clearer"
    undecided = verdict(claim(MEAN, {"above": 1.0}), narrow)
    assert (undecided.verdict, undecided.turns_without) == ("inconclusive", [])


def test_leaving_one_of_five_out_is_judged_by_four(claim, runs) -> None:
    table = runs({"seed": range(5)}, loss=RISING)
    assert verdict(claim(MEAN, {"above": 0}), table).turns_without == []
