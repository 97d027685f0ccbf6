"""claims.yaml as it stood at a commit, read without reading again what commits have in common."""

import re
from functools import cache
from typing import Any

import yaml

from common.experiments.provenance import git
from common.experiments.replication import Replication

_ENTRY = re.compile(r"^(?=- )", re.MULTILINE)


def entries_at(replication: Replication, commit: str) -> list[dict[str, Any]]:
    """The entries of claims.yaml at a commit, as YAML reads them (to be looked at alone); none where it is missing."""
    path = (replication.folder / "claims.yaml").relative_to(replication.root).as_posix()
    text = git(replication.root, "show", f"{commit}:{path}") or ""
    try:
        return [entry for part in _ENTRY.split(text) for entry in _read(part)]
    except yaml.YAMLError:  # an entry that needs another to be read
        return _read(text)


@cache
def _read(text: str) -> list[dict[str, Any]]:
    return yaml.load(text, yaml.CSafeLoader) or []
