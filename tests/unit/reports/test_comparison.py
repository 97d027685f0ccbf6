"""Two sets of results side by side."""

from pathlib import Path
from typing import Any

import pytest

from common.errors import UserError
from common.files import write_json
from common.reports.comparison import Comparison, compare, side, write_comparison
from common.workflow.tables import comparison_table

RUN = {"experiment": "e", "run": "seed=0", "outcome": "completed", "device": "one", "commit": "a" * 40}


def verdict(identifier: str, name: str, estimate: float, **more: Any) -> dict[str, Any]:
    interval = [estimate - 1, estimate + 1]
    return {
        "id": identifier,
        "statement": "It holds.",
        "verdict": name,
        "estimate": estimate,
        "interval": interval,
    } | more


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """Live results against published ones: a verdict changed, an estimate moved, one equal, one on each side alone."""
    live, published = tmp_path / "analysis" / "laptop", tmp_path / "reports" / "published" / "workstation"
    write_json(
        live / "paper" / "verdicts.json",
        [
            verdict("x", "inconclusive", 1.0),
            verdict("y", "reproduced", 2.0),
            verdict("z", "reproduced", 3.0),
            verdict("gone", "reproduced", 1.0, statement="<b>It</b> & holds."),
        ],
    )
    runs = [{**RUN, "seconds": 10.0, "peak_memory_mb": 5.0, "versions": {"torch": "1"}}, {**RUN, "seconds": 20.0}]
    write_json(live / "paper" / "runs.json", runs)
    write_json(
        published / "paper" / "verdicts.json",
        [
            verdict("x", "reproduced", 1.5),
            verdict("y", "reproduced", 2.5),
            verdict("z", "reproduced", 3.0),
            verdict("fresh", "contradicted", 1.0),
        ],
    )
    facts = {"commit": "b" * 40, "devices": ["two"], "versions": {"torch": "2"}, "seconds": 60.0, "runs": 5}
    write_json(published / "paper" / "provenance.json", {"experiments": {"e": facts}})
    return compare(side(tmp_path, str(live)), side(tmp_path, "workstation"))


def test_every_claim_is_put_where_it_differs(comparison: Comparison) -> None:
    changes = ("verdict", "estimate", "none", "only in A", "only in B")
    found = {change: [pair.id for pair in comparison.changed(change)] for change in changes}
    assert found == {"verdict": ["x"], "estimate": ["y"], "none": ["z"], "only in A": ["gone"], "only in B": ["fresh"]}


def test_cost_and_environment_of_an_experiment_stand_side_by_side(comparison: Comparison) -> None:
    (cost,) = comparison.costs
    assert (cost.a.seconds, cost.a.peak_memory_mb, cost.ratio) == (30.0, 5.0, 2.0)
    assert cost.environment == [
        ("commit", "a" * 10, "b" * 10),
        ("device", "one", "two"),
        ("torch", "1", "2"),
    ]


def test_the_terminal_says_what_changed(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    comparison_table(comparison)
    said = capsys.readouterr().out
    assert "5 claims: 1 changed their verdict, 1 their estimate" in said
    assert "torch 1 → 2" in " ".join(said.split())


def test_verdicts_that_turn_are_counted_where_both_sides_were_asked_the_same(tmp_path: Path) -> None:
    asked = {"rule": "mean of loss, above 0", "scale": "laptop", "n": 5}
    first = [
        verdict("turns", "reproduced", 1.0, turns_without=[3], **asked),
        verdict("flips", "reproduced", 1.0, **asked),
        verdict("stays", "reproduced", 1.0, **asked),
        verdict("more-seeds", "reproduced", 1.0, **asked),
        verdict("other-rule", "reproduced", 1.0, **asked),
        verdict("left-out", "not run", 1.0, **asked),
    ]
    changes = (
        {"verdict": "inconclusive"},
        {"verdict": "contradicted"},
        {},
        {"verdict": "inconclusive", "n": 10},
        {"verdict": "inconclusive", "rule": "mean of loss, above 1"},
        {"verdict": "reproduced"},
    )
    for name, rows in {"a": first, "b": [row | change for row, change in zip(first, changes, strict=True)]}.items():
        write_json(tmp_path / name / "paper" / "verdicts.json", rows)
    found = compare(side(tmp_path, str(tmp_path / "a")), side(tmp_path, str(tmp_path / "b")))
    assert [pair.id for pair in found.claims if pair.alike] == ["turns", "flips", "stays"]
    assert ", 2 turned (66.7%), 1 of them into the opposite; 1 of them" in found.stability


def test_the_page_shows_both_sides_and_text_stays_text(comparison: Comparison, tmp_path: Path) -> None:
    html = write_comparison(comparison, tmp_path / "diff.html").read_text()
    assert "Another verdict (1)" in html
    assert "<b>It</b>" not in html
    assert "1 of 5 claims are equal" in html


def test_a_folder_without_verdicts_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no <paper>/verdicts.json"):
        side(tmp_path, str(tmp_path / "nothing"))
