"""`replicate new`: a replication that runs at once, to be replaced by the paper's own."""

import datetime
import importlib.util
import re
from pathlib import Path
from string import Template

from common.errors import UserError
from common.experiments.config import NAMES_ARE, is_name
from common.files import write_atomically
from common.workflow.coverage import INVENTORY

MARK = "SCAFFOLD"
"""Stands wherever a replication is still what `new` wrote."""
_TEMPLATES = Path(__file__).parent / "scaffold"


def new(root: Path, name: str) -> list[Path]:
    """Write a replication `name` with one small experiment, its claims, notebook and test; returns the files.

    Raises:
        UserError: the name is not a Python module's in lower case, is that of an installed one, or is taken.
    """
    if not is_name(name):
        raise UserError(f"{name!r} cannot name a replication: {NAMES_ARE}.")
    if importlib.util.find_spec(name) is not None:
        raise UserError(
            f"{name!r} cannot name a replication: a Python package has the name; add the year of the paper."
        )
    folder = root / "replications" / name
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another name.")
    year, this_year = re.search(r"(19|20)\d\d", name), str(datetime.date.today().year)
    values = {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "key": name if year else f"{name}{this_year}",
        "year": year.group() if year else this_year,
    }
    written = []
    for template in sorted(_TEMPLATES.rglob("*.template")):
        place = tests_of(root, name) if template.name.startswith("test_") else folder
        path = place / template.relative_to(_TEMPLATES).with_suffix("")
        write_atomically(path, Template(template.read_text()).substitute(values))
        written.append(path)
    inventory = root / INVENTORY
    if inventory.is_file():
        entry = f"\n{values['key']}:  # {MARK}: what the paper numbers\n  Fig.: {{last: 1}}\n"
        write_atomically(inventory, inventory.read_text() + entry)
        written.append(inventory)
    return written


def tests_of(root: Path, name: str) -> Path:
    """Where the unit tests of a replication lie."""
    return root / "tests" / "unit" / "replications" / name
