"""The README's scoreboard counts what is published, and nothing else."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from common.files import write_json
from common.reports.scoreboard import BEGIN, END, scoreboard, with_scoreboard
from tests.conftest import EXAMPLE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "replications" / "decay")
    return tmp_path


def publish(root: Path, scale: str, verdicts: list[tuple[str, ...]], commits: list[str]) -> None:
    place = root / "reports" / "published" / scale / "decay"
    entries: list[dict[str, Any]] = [
        {"id": f"c{k}", "statement": "It holds.", "polarity": polarity, "verdict": verdict, "nature": nature}
        | ({"turns_without": [0]} if verdict == "contradicted" else {})
        for k, (polarity, verdict, nature) in enumerate((*each, "empirical")[:3] for each in verdicts)
    ]
    write_json(place / "verdicts.json", entries)
    write_json(place / "provenance.json", {"experiments": {f"e{k}": {"commit": c} for k, c in enumerate(commits)}})


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_paper_without_published_evidence_says_so(root: Path) -> None:
    assert cells(scoreboard(root).splitlines()[2])[2:4] == ["nothing", ""]


def test_claims_of_the_document_are_counted_by_verdict_and_controls_and_findings_are_not(root: Path) -> None:
    publish(
        root,
        "laptop",
        [
            ("claim", "reproduced"),
            ("claim", "reproduced"),
            ("claim", "contradicted"),
            ("claim", "not decidable at this scale"),
            ("claim", "not run"),
            ("claim", "reproduced", "theorem"),
            ("claim", "contradicted", "printed"),
            ("control", "reproduced"),
            ("our_finding", "inconclusive"),
        ],
        ["a" * 40, "a" * 40],
    )
    expected = ["laptop", "5", "2", "1", "0", "1", "1", "1", "1 of 2", "a" * 10]
    row, total = (cells(row) for row in scoreboard(root).splitlines()[2:])
    assert row[2:] == expected
    assert total == ["all documents", "", "", *expected[1:-1], ""]


def test_a_claim_counts_once_by_the_largest_scale_that_decides_it_and_several_commits_are_counted(root: Path) -> None:
    claims = ("reproduced", "reproduced", "not decidable at this scale"), ("contradicted", "not run", "inconclusive")
    for scale, verdicts, commits in zip(("laptop", "workstation"), claims, ("a", "bc"), strict=True):
        publish(root, scale, [("claim", verdict) for verdict in verdicts], [commit * 40 for commit in commits])
    row = cells(scoreboard(root).splitlines()[2])
    assert row[2:9] == ["workstation, laptop", "3", "1", "1", "1", "0", "0"]
    assert row[-1] == "3 commits"


def test_only_what_stands_between_the_marks_is_replaced(root: Path) -> None:
    text = with_scoreboard(f"before\n{BEGIN}\nold\n{END}\nafter\n", root)
    assert text.startswith(f"before\n{BEGIN}\n| replication")
    assert text.endswith(f"|\n{END}\nafter\n")
    assert "old" not in text
    assert with_scoreboard(text, root) == text
    assert with_scoreboard("no marks\n", root) == "no marks\n"
