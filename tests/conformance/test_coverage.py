"""Each paper's coverage is held against what its document numbers, which `inventory.yaml` lists."""

from pathlib import Path

import pytest

from common.experiments.paper import Coverage, Paper
from common.sources import load_typed
from common.workflow.coverage import KINDS, gaps, inventory_items, load_inventory, numbered_items
from tests.conftest import ROOT

PAPERS = sorted((ROOT / "replications").glob("*/paper.yaml"))
INVENTORY = load_inventory(ROOT)


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.parent.name)
def test_coverage_names_every_numbered_item_of_the_document_and_no_other(path: Path) -> None:
    paper = load_typed(path, Paper)
    assert paper.key in INVENTORY, (
        f"tests/conformance/inventory.yaml has no entry {paper.key}; {{}} if it numbers nothing"
    )
    missing, unknown = gaps(paper.coverage, inventory_items(INVENTORY[paper.key]))
    assert not missing, f"{path}: coverage leaves out {sorted(missing)}"
    assert not unknown, f"{path}: coverage names {sorted(unknown)}, which the document does not have"


def test_every_entry_of_the_inventory_is_of_a_replication_and_of_known_kinds() -> None:
    keys = {load_typed(path, Paper).key for path in PAPERS}
    assert INVENTORY.keys() - keys == set(), "entries of tests/conformance/inventory.yaml that no paper.yaml has as key"
    assert {kind for kinds in INVENTORY.values() for kind in kinds} <= set(KINDS)


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
    missing, unknown = gaps(coverage, inventory_items(INVENTORY["wang2018identifying"]))
    assert {"Fig. 7", "Lemma 5", "Equation 33"} <= missing
    assert unknown == {"Fig. 8"}
