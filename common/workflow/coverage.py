"""What a document numbers, as an inventory lists it, against what the coverage of its replication names."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from common.experiments.paper import Coverage

INVENTORY = Path("tests/conformance/inventory.yaml")
KINDS = ("Fig.", "Table", "Algorithm", "Theorem", "Definition", "Lemma", "Proposition", "Claim", "Equation")
_LISTED = r"(?:\(?\d+\)?[a-z]?(?:,? and |, | to )?)+"


def load_inventory(root: Path) -> dict[str, Any]:
    """Kinds and numbers by the key of a document; {} in a project that keeps no inventory."""
    path = root / INVENTORY
    return yaml.safe_load(path.read_text()) or {} if path.is_file() else {}


def inventory_items(kinds: dict[str, Any]) -> set[str]:
    """The items of one document, such as "Lemma 5"; `last` stands for 1 to it."""
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
        for match in re.finditer(rf"\b{singular}s?\.? ({_LISTED})", text):
            last = 0
            for to, number in re.findall(r"( to )?\(?(\d+)\)?[a-z]?", match[1]):
                first = last + 1 if to else int(number)
                found |= {f"{kind} {k}" for k in range(first, int(number) + 1)}
                last = int(number)
    return found


def gaps(coverage: Iterable[Coverage], items: set[str]) -> tuple[set[str], set[str]]:
    """What of a document's items the coverage leaves out, and what it names that the document does not have."""
    named = set().union(*(numbered_items(entry.item) for entry in coverage))
    return items - named, named - items
