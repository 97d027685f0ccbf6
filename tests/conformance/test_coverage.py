"""Each paper's coverage is held against what its document numbers, which `inventory.yaml` lists."""

import re
from pathlib import Path

import pytest
import yaml

from common.experiments.paper import Coverage, Paper
from common.sources import load_typed
from tests.conftest import ROOT

PAPERS = sorted((ROOT / "replications").glob("*/paper.yaml"))
KINDS = ("Fig.", "Table", "Algorithm", "Theorem", "Definition", "Lemma", "Proposition", "Claim", "Equation")
LISTED = r"(?:\(?\d+\)?[a-z]?(?:,? and |, | to )?)+"


INVENTORY = yaml.safe_load((Path(__file__).parent / "inventory.yaml").read_text())


def inventory(key: str) -> set[str]:
    """The numbered items of a document, such as "Lemma 5"; none known of another key."""
    kinds = INVENTORY.get(key, {})
    items = set()
    for kind, numbers in kinds.items():
        listed = range(1, numbers["last"] + 1) if isinstance(numbers, dict) else numbers
        items |= {f"{kind} {number}" for number in listed}
    return items


def numbered_items(text: str) -> set[str]:
    """The items that a text names: "Lemmas 5 and 6", "Fig. 1a", "Equations (16) to (18)"."""
    found = set()
    for kind in KINDS:
        singular = re.escape(kind.rstrip("."))
        for match in re.finditer(rf"\b{singular}s?\.? ({LISTED})", text):
            last = 0
            for to, number in re.findall(r"( to )?\(?(\d+)\)?[a-z]?", match[1]):
                first = last + 1 if to else int(number)
                found |= {f"{kind} {k}" for k in range(first, int(number) + 1)}
                last = int(number)
    return found


def gaps(coverage: list[Coverage], key: str) -> tuple[set[str], set[str]]:
    """What of the document the coverage leaves out, and what it names that the document does not have."""
    named = set().union(*(numbered_items(entry.item) for entry in coverage))
    return inventory(key) - named, named - inventory(key)


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.parent.name)
def test_coverage_names_every_numbered_item_of_the_document_and_no_other(path: Path) -> None:
    paper = load_typed(path, Paper)
    assert paper.key in INVENTORY, (
        f"tests/conformance/inventory.yaml has no entry {paper.key}; {{}} if it numbers nothing"
    )
    missing, unknown = gaps(paper.coverage, paper.key)
    assert not missing, f"{path}: coverage leaves out {sorted(missing)}"
    assert not unknown, f"{path}: coverage names {sorted(unknown)}, which the document does not have"


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.parent.name)
def test_what_coverage_calls_replicated_has_a_figure_or_a_note_and_items_stand_once(path: Path) -> None:
    coverage = load_typed(path, Paper).coverage
    items = [entry.item for entry in coverage]
    assert len(set(items)) == len(items)
    for entry in coverage:
        if entry.status in ("replicated", "reduced"):
            assert entry.figure or entry.note, f"{path}: {entry.item}: name the figure, or say in a note where it is"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fig. 1a", {"Fig. 1"}),
        ("Figs. 3 and 5", {"Fig. 3", "Fig. 5"}),
        ("Equations (16) to (18), (21)", {f"Equation {k}" for k in (16, 17, 18, 21)}),
        ("Lemma 6, Theorem 7", {"Lemma 6", "Theorem 7"}),
        ("Section 6: 2018", set()),
    ],
)
def test_items_are_read_from_how_people_write_them(text: str, expected: set[str]) -> None:
    assert numbered_items(text) == expected


def test_a_missing_and_an_invented_item_are_both_found() -> None:
    coverage = [Coverage(item="Figs. 1, 2, 3, 4, 5, 6 and 8", status="quoted", reason="a test")]
    missing, unknown = gaps(coverage, "wang2018identifying")
    assert {"Fig. 7", "Lemma 5", "Equation 33"} <= missing
    assert unknown == {"Fig. 8"}
