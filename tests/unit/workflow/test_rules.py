"""Rules are older than the runs that they judge, or say so: planted cases in a small repository."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.claims import Claim, load_claims
from common.errors import UserError
from common.experiments.replication import Replication
from common.files import write_json
from common.workflow.disclosure import undisclosed_settings
from common.workflow.publish import _check_older, _same_numbers
from common.workflow.reach import never_reproduced, other_settings, out_of_reach, same_numbers
from common.workflow.rules import Rule, broken, check_older, check_published, history, rules, rules_at, since
from common.workflow.undisclosed import dropped, undisclosed
from tests.conftest import EXAMPLE, Project, make_project

FIRST = "fig1-larger-steps-descend-faster"
SEEDS = {0, 1, 2, 3, 4}


@pytest.fixture
def committed(tmp_path: Path) -> Project:
    """The example, committed as it stands."""
    project = make_project(tmp_path, {"decay": EXAMPLE})
    project.commit("start")
    return project


def now(project: Project) -> tuple[Replication, Claim, Rule]:
    """The replication, its first claim, and what decides that now."""
    replication = project.replication()
    claims = load_claims(replication.folder / "claims.yaml")
    return replication, claims[0], rules(replication, "laptop", claims)[FIRST]


def older(project: Project, computed_from: str) -> None:
    replication, claim, rule = now(project)
    check_older(
        claim,
        rule,
        rules_at(replication, computed_from, "laptop").get(FIRST),
        computed_from,
        seeds=SEEDS,
        scale="laptop",
    )


def amend(project: Project, **entry: Any) -> None:
    line = "  experiment: descent\n  estimate: {kind: paired_difference, metric: log_distance, of: {learning_rate: 0.5}"
    project.edit("claims.yaml", line, f"  amended: [{entry}]\n{line}")


def test_a_rule_that_stood_when_the_runs_were_computed_is_taken_with_the_commit_that_holds_it(
    committed: Project,
) -> None:
    start = committed.git("rev-parse", "HEAD")
    (committed.root / "note").write_text("later")
    runs = committed.commit("later")
    older(committed, runs)
    replication, claim, _ = now(committed)
    assert since(replication, [claim]) == {FIRST: start}


def test_a_renamed_claim_has_been_decided_so_since_before_its_name(committed: Project) -> None:
    def stands() -> dict[str, str]:
        replication = committed.replication()
        return since(replication, load_claims(replication.folder / "claims.yaml")[:1])

    start = committed.git("rev-parse", "HEAD")
    committed.edit("claims.yaml", FIRST, "larger-steps")
    renamed = committed.commit("renamed")
    assert stands() == {"larger-steps": renamed}
    amend(committed, date="2026-01-01", reason="a better name", former={"id": FIRST})
    assert stands() == {"larger-steps": start}


def test_a_rule_committed_after_its_runs_is_refused(committed: Project) -> None:
    runs = committed.git("rev-parse", "HEAD")
    committed.edit("claims.yaml", "accept: {below: 0}", "accept: {below: 9}")
    moved = committed.commit("moved")
    with pytest.raises(UserError, match=f"{FIRST} the rule differs from the one at the runs' commit {runs[:12]}; say"):
        older(committed, runs)
    replication, claim, _ = now(committed)
    assert since(replication, [claim]) == {FIRST: moved}
    amend(committed, date="2026-01-01", reason="a slip", seen={"laptop": [0, 1]})
    with pytest.raises(UserError, match=r"leave out that seeds \[2, 3, 4\] had been seen"):
        older(committed, runs)


def test_a_claim_that_is_younger_than_its_runs_is_told_what_to_write(committed: Project) -> None:
    runs = committed.git("rev-parse", "HEAD")
    _, claim, rule = now(committed)
    entry = r"say so in `amended: \[{date, reason, seen: {laptop: \[0, 1, 2, 3, 4\]}}\]`"
    with pytest.raises(UserError, match=f"no rule stood in claims.yaml at the runs' commit {runs[:12]}; {entry}"):
        check_older(claim, rule, None, runs, seeds=SEEDS, scale="laptop")


def test_an_amendment_that_names_all_seeds_as_seen_is_taken(committed: Project) -> None:
    runs = committed.git("rev-parse", "HEAD")
    committed.edit("claims.yaml", "accept: {below: 0}", "accept: {below: 9}")
    amend(committed, date="2026-01-01", reason="a slip", seen={"laptop": list(SEEDS)})
    older(committed, runs)


def test_runs_of_a_commit_that_the_history_lacks_are_said_to_be_beyond_judgement(committed: Project) -> None:
    with pytest.raises(UserError, match="The history here lacks commit aaaaaaaaaaaa, from which runs of decay were"):
        older(committed, "a" * 40)


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        # A learning rate that the claim does not select.
        ("config.yaml", "3.0]\n    seed: 5\n  together", "4.0]\n    seed: 5\n  together", ""),
        ("config.yaml", "base: {steps: 40}", "base: {steps: 50}", "settings that it selects"),
        ("analysis/descent.py", "np.log(", "np.log2(", "code of its metrics"),
    ],
)
def test_a_change_of_what_a_rule_reads_is_a_change_of_the_rule(
    committed: Project, file: str, old: str, new: str, changed: str
) -> None:
    runs = committed.git("rev-parse", "HEAD")
    committed.edit(file, old, new)
    if not changed:
        older(committed, runs)
        return
    with pytest.raises(UserError, match=f"the {changed} differs from the one at the runs' commit"):
        older(committed, runs)


ONLY_THE_STATEMENT = {"statement": "It was said otherwise."}
GRID = ("config.yaml", "base: {steps: 40}", "base: {steps: 50}", "settings that it selects")
RULE = ("claims.yaml", "accept: {below: 0}", "accept: {below: 9}", "rule")
METRICS = ("analysis/descent.py", "np.log(", "np.log2(", "code of its metrics")


@pytest.mark.parametrize(
    ("file", "old", "new", "what", "former", "told"),
    [
        (*GRID, None, False),
        (*GRID, ONLY_THE_STATEMENT, False),
        (*GRID, {"accept": {"below": 5}}, False),
        (*GRID, {"metrics": "otherwise"}, False),
        (*GRID, {"settings": "40 steps"}, True),
        (*RULE, None, False),
        (*RULE, ONLY_THE_STATEMENT, False),
        (*RULE, {"settings": "40 steps"}, False),
        (*RULE, {"accept": {"below": 5}}, False),  # that was not the rule
        (*RULE, {"accept": {"below": 0}}, True),
        (*METRICS, None, False),
        (*METRICS, ONLY_THE_STATEMENT, False),
        (*METRICS, {"settings": "40 steps"}, False),
        (*METRICS, {"metrics": "the natural logarithm"}, True),
    ],
)
def test_a_change_after_publication_passes_with_an_entry_that_keeps_what_changed_and_with_no_other(
    committed: Project, file: str, old: str, new: str, what: str, former: dict[str, Any] | None, told: bool
) -> None:
    _, _, before = now(committed)
    published = {"decided_by": vars(before), "amended": []}
    committed.edit(file, old, new)
    amend(committed, date="2026-01-01", reason="a slip", **({"former": former} if former else {}))
    _, claim, rule = now(committed)
    if told:
        check_published(claim, rule, published, same_numbers=False, scale="laptop")
        published["amended"] = [claim.amended[0].model_dump(mode="json", exclude_unset=True)]
    with pytest.raises(UserError, match=f"the {what} changed since its evidence at scale laptop was published"):
        check_published(claim, rule, published, same_numbers=False, scale="laptop")


def test_a_change_that_comes_with_another_name_is_named(committed: Project) -> None:
    _, _, before = now(committed)
    place = committed.root / "reports/published/laptop/decay"
    write_json(place / "verdicts.json", [{"id": FIRST, "decided_by": vars(before), "amended": []}])
    committed.edit("claims.yaml", FIRST, "larger-steps")
    committed.edit(*GRID[:3])
    amend(committed, date="2026-01-01", reason="a better name", former={"id": FIRST})
    found = list(broken(committed.replication()))
    assert [sentence.split(" changed since")[0] for sentence in found] == [
        "of claim larger-steps the settings that it selects"
    ]


def test_published_rules_stand_for_those_of_a_commit_that_is_gone_under_their_former_names(committed: Project) -> None:
    *_, rule = now(committed)
    published = {"an-earlier-name": {"decided_by": vars(rule)}}

    def judged_again() -> None:
        replication, claim, rule = now(committed)
        runs = {"0" * 40: [{"run": "learning_rate=0.5,seed=0", "learning_rate": 0.5, "seed": 0}]}
        _check_older(replication, [claim], {claim.id: rule}, runs, "laptop", published_by=published)

    with pytest.raises(UserError, match="no rule stood in claims"):
        judged_again()
    amend(committed, date="2026-01-01", reason="a better name", former={"id": "an-earlier-name"})
    judged_again()
    committed.edit("claims.yaml", "accept: {below: 0}", "accept: {below: 7}")
    with pytest.raises(UserError, match=r"its amendments leave out that seeds \[0\] had been seen"):
        judged_again()


def test_other_code_of_metrics_that_gives_the_same_numbers_is_no_change(committed: Project) -> None:
    _, claim, rule = now(committed)
    published = {"decided_by": {**vars(rule), "metrics": "other"}, "amended": []}
    check_published(claim, rule, published, same_numbers=True, scale="laptop")
    with pytest.raises(UserError, match="the code of its metrics changed"):
        check_published(claim, rule, published, same_numbers=False, scale="laptop")


def test_other_code_since_the_runs_is_no_change_where_it_gives_the_same_numbers(committed: Project) -> None:
    runs = committed.git("rev-parse", "HEAD")
    analysis = committed.root / "analysis"
    analysis.mkdir()
    row = {"run": "learning_rate=0.5,seed=0", "learning_rate": 0.5, "seed": 0}
    pd.DataFrame([{**row, "distance": 0.25}]).to_parquet(analysis / "descent.parquet")

    def published(log_distance: float) -> None:
        write_json(
            analysis / "metrics.json", {"descent": [{**row, "log_distance": log_distance, "regime_reached": True}]}
        )
        replication, claim, rule = now(committed)
        _check_older(replication, [claim], {claim.id: rule}, {runs: [row]}, "laptop", analysis=analysis)

    committed.edit("analysis/descent.py", "np.log(", "np.emath.log(")
    published(float(np.log(0.25)))
    with pytest.raises(UserError, match="the code of its metrics differs from the one at the runs' commit"):
        published(-2.0)


def test_a_claim_that_changed_after_its_evidence_was_published_is_named_until_it_says_so(committed: Project) -> None:
    place = committed.root / "reports/published/laptop/decay/verdicts.json"

    def named() -> list[str]:
        return [sentence.split(f"claim {FIRST}: ")[1] for sentence in undisclosed(committed.replication())]

    committed.edit("claims.yaml", "accept: {below: 0}", "accept: {below: 7}")
    committed.commit("a draft")
    write_json(place, [{"id": FIRST, "verdict": "reproduced"}])
    committed.commit("evidence")
    committed.edit("claims.yaml", "accept: {below: 7}", "accept:\n    below: 7.0")
    committed.commit("spelt otherwise")
    assert named() == []
    committed.edit("claims.yaml", "accept:\n    below: 7.0", "accept: {below: 9}")
    moved = committed.commit("moved")
    assert [sentence.split(" of ")[0] for sentence in named()] == [f"its accept was another until commit {moved[:7]}"]
    amend(committed, date="2026-01-01", reason="a slip", former={"accept": {"below": 0}})
    assert len(named()) == 1
    committed.edit("claims.yaml", "{'below': 0}", "{'below': 7}")
    assert named() == []
    committed.edit("claims.yaml", "accept: {below: 9}", "accept: {below: 9}\n  may_miss_regime: 1")
    committed.commit("one may miss it")
    assert len(named()) == 1
    committed.edit("claims.yaml", "{'below': 7}", "{'below': 7}, 'may_miss_regime': 0")
    assert named() == [], "none could, where the rule did not say"


def test_a_claim_that_is_gone_after_its_evidence_was_published_is_named_until_something_keeps_it(
    committed: Project,
) -> None:
    def named() -> list[str]:
        return [sentence.split(": ")[1] for sentence in dropped(committed.replication())]

    committed.edit("claims.yaml", "id: control-planted-effect", "id: control-planted")
    committed.commit("nobody had seen its verdict")
    place = committed.root / "reports/published/laptop/decay/verdicts.json"
    write_json(place, [{"id": name, "verdict": "reproduced"} for name in (FIRST, "control-planted")])
    committed.commit("evidence")
    committed.edit("claims.yaml", FIRST, "larger-steps")
    committed.edit("claims.yaml", "id: control-planted", "id: control")
    gone = committed.commit("renamed")
    since = f"is gone since commit {gone[:7]} of "
    assert [sentence.split(since)[0] for sentence in named()] == ["claim control-planted ", f"claim {FIRST} "]
    amend(committed, date="2026-01-01", reason="a better name", former={"id": FIRST})
    assert [sentence.split()[1] for sentence in named()] == ["control-planted"]
    entry = "{date: 2026-01-01, reason: it asks for nothing, claims: [control-planted]}"
    committed.edit("paper.yaml", "coverage:", f"withdrawn: [{entry}]\ncoverage:")
    assert named() == []


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [
        ([0.1, 3e-15], [0.1 + 1e-15, 3e-15], True),
        ([0.1, 0.2], [0.1, 0.3], False),
        ([0.1], [0.1, 0.2], False),
        (None, float("nan"), True),
        (None, 0.5, False),
        (3e-15, 4e-15, False),
        ("adam", "adam", True),
    ],
)
def test_numbers_are_the_same_to_six_digits_whatever_they_are_kept_in(
    committed: Project, then: Any, now: Any, same: bool
) -> None:
    replication = committed.replication()
    claim = load_claims(replication.folder / "claims.yaml")[0]
    name = claim.estimate.variables()[0]
    rows = [[{"run": "seed=0", "regime_reached": True, name: value}] for value in (then, now)]
    assert _same_numbers(claim, *rows) is same


def test_what_rules_reach_is_told(committed: Project) -> None:
    replication, *_ = now(committed)
    assert [*out_of_reach(replication), *other_settings(replication), *same_numbers(replication)] == []
    committed.edit("config.yaml", "smoke: {steps: 20, grid: {seed: 2}}", "laptop: {grid: {seed: 3}}")
    committed.edit("claims.yaml", "id: control-planted-effect", "id: b")
    path = committed.root / "replications/decay/claims.yaml"
    text = path.read_text()
    path.write_text(text + text[: text.index("- id: b")].replace(FIRST, "twin"))
    replication, *_ = now(committed)
    assert next(iter(out_of_reach(replication))).endswith(
        "has not the runs that it needs; the first that has is workstation."
    )
    assert list(same_numbers(replication)) == [f"claims {FIRST} and twin read the same number."]


def test_settings_that_a_larger_scale_leaves_out_are_told_of_claims_together_and_seeds_are_none(
    committed: Project,
) -> None:
    first = "estimate: {kind: paired_difference, metric: log_distance, of: {learning_rate: 0.5}, minus: "
    path = committed.root / "replications/decay/claims.yaml"
    rule = "estimate: {kind: exact, metric: log_distance, over: [learning_rate, seed]}"
    one = path.read_text().replace(first + "{learning_rate: 0.1}, pair_by: seed}", rule, 1)
    path.write_text(one + one[: one.index("- id: control")].replace(FIRST, "twin"))
    scales = (
        "smoke: {{steps: 20, grid: {{seed: 2}}}}\n    workstation: {{grid: {{learning_rate: {rates}, seed: [5, 6]}}}}"
    )
    committed.edit("config.yaml", "smoke: {steps: 20, grid: {seed: 2}}", scales.format(rates="[0.1, 0.5, 3.0]"))
    assert list(other_settings(committed.replication())) == []
    committed.edit("config.yaml", "learning_rate: [0.1, 0.5, 3.0], seed: [5, 6]", "learning_rate: [0.1], seed: [5, 6]")
    assert list(other_settings(committed.replication())) == [
        f"descent: workstation scale leaves out 2 of the laptop's 3 settings of claims {FIRST}, twin."
    ]


def test_a_share_that_so_few_seeds_cannot_show_is_told(committed: Project) -> None:
    first = "estimate: {kind: paired_difference, metric: log_distance, of: {learning_rate: 0.5}, minus:"
    committed.edit("claims.yaml", first, first.replace("paired_difference", "earlier").replace("minus", "than"))
    committed.edit("claims.yaml", "accept: {below: 0}", "accept: {above: 0.5}")
    (said,) = never_reproduced(committed.replication())
    assert said == (
        f"claim {FIRST}: at laptop scale it cannot be reproduced (n = 5 seeds, and even 5 of 5 would give [0.478, 1], "
        "which does not lie above 0.5)."
    )
    committed.edit("config.yaml", "3.0]\n    seed: 5\n  together", "3.0]\n    seed: 6\n  together")
    assert list(never_reproduced(committed.replication())) == []


def test_the_history_of_a_rule_is_printed_and_broken_ones_are_named(committed: Project) -> None:
    replication, _, before = now(committed)
    place = committed.root / "reports/published/laptop/decay"
    write_json(place / "verdicts.json", [{"id": FIRST, "decided_by": vars(before), "amended": []}])
    assert list(broken(replication)) == []
    committed.edit("claims.yaml", "accept: {below: 0}", "accept: {below: 9}")
    replication, *_ = now(committed)
    assert [sentence.split(" the rule changed")[0] for sentence in broken(replication)] == [f"of claim {FIRST}"]
    former = {"accept": {"below": 0}, "statement": "It stays."}
    entry = {"date": "2026-01-01", "reason": "a slip", "former": former, "seen": {"laptop": [0, 1]}}
    amend(committed, **entry)
    replication, *_ = now(committed)
    assert list(broken(replication)) == []
    said = list(history(replication))
    assert said[0] == f"{FIRST} (claim, empirical)"
    assert said[1].endswith("below 9; not committed")
    assert said[2:5] == [
        "  2026-01-01: a slip",
        "    before: paired difference of log_distance, learning_rate=0.5 minus learning_rate=0.1, below 0; "
        "statement “It stays.”",
        "    seen at scale laptop: seeds 0, 1",
    ]


def test_settings_that_published_evidence_had_are_named_until_an_entry_that_is_younger_keeps_them(
    committed: Project,
) -> None:
    place = committed.root / "reports/published/laptop/decay"

    def evidence(finished: str) -> None:
        write_json(place / "verdicts.json", [{"id": FIRST, "verdict": "reproduced"}])
        write_json(place / "provenance.json", {"experiments": {"descent": {"finished": finished}}})
        committed.commit(f"evidence of {finished}")

    def named() -> list[str]:
        replication = committed.replication()
        return [sentence.split(" (")[1].split(")")[0] for sentence in undisclosed_settings(replication)]

    amend(committed, date="2099-01-01", reason="before the evidence", former={"settings": "10 steps"})
    evidence("one")
    assert named() == []
    committed.edit("config.yaml", "base: {steps: 40}", "base: {steps: 50}")
    assert named() == ["steps from 40 to 50"]
    evidence("two")
    assert named() == ["steps from 40 to 50"], "whether or not there is new evidence"
    committed.edit("config.yaml", "base: {steps: 50}", "base: {steps: 40}")
    assert named() == ["steps from 50 to 40"], "what is back needs no entry, and what was in between does"
    committed.edit("claims.yaml", "'settings': '10 steps'", "'settings': '10 steps; workstation: 7 steps'")
    assert len(named()) == 1, "an entry of another scale"
    former = "{date: 2099-01-01, reason: for time, former: {settings: '50 steps'}}"
    committed.edit("claims.yaml", "  amended: [", f"  amended: [{former}, ")
    assert named() == []
    committed.edit("config.yaml", "3.0]\n    seed: 5\n  together", "3.0]\n    seed: 6\n  together")
    assert named() == ["seed from 0, 1, 2, 3, 4 to 0, 1, 2, 3, 4, 5"], "steps are no seeds"
    of_one = [
        list(undisclosed_settings(committed.replication(), *only))
        for only in ((("laptop",), {"descent"}), (("laptop",), {"measurement"}), (("paper",), None))
    ]
    assert [len(found) for found in of_one] == [1, 0, 0]
    committed.edit("claims.yaml", "'50 steps'", "'50 steps, five seeds'")
    assert len(named()) == 0
    committed.edit("descent.py", "pause: float = Field(0.0", "pause: float = Field(0.1")
    assert named() == ["pause from 0 to 0.1; steps from 50 to 40"], "two forms that are not the present one, one entry"
