"""How a run ended, and the results folder that remembers it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from common.experiments import integrity
from common.experiments.grid import Job, Run
from common.files import peek_json, read_json, write_json

Status = Literal["completed", "diverged", "unfinished", "data_unavailable", "blocked", "failed", "missing", "damaged"]

COMPUTED: tuple[Status, ...] = ("completed", "diverged")
"""Outcomes that leave a run folder with records."""
SETTLED: tuple[Status, ...] = ("completed", "diverged", "data_unavailable", "blocked")
"""Outcomes that are no failure of ours."""
FORGOTTEN: tuple[Status, ...] = ("unfinished", "data_unavailable", "blocked", "missing", "damaged")
"""Outcomes that the next invocation tries again by itself."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        reason: one sentence; empty for a completed run.
        identity: digest of what the run was computed from (see `identity.py`).
    """

    status: Status
    reason: str = ""
    identity: str = ""


@dataclass(frozen=True)
class RunRecord:
    """outcome.json of a run folder: what it was computed from and what it holds.

    Attributes:
        inputs: code digest, parameters and data digests.
        used: digest of each needed artifact set, by need.
        artifacts: sha256 of each file under artifacts/.
        records: sha256 of records.jsonl.
        accepted: changes of code accepted by `replicate accept`, oldest first.
        provenance: sha256 of provenance.json; empty in older runs.
        sizes: bytes of each file under artifacts/; empty in older runs.
    """

    status: Status
    reason: str
    inputs: Mapping[str, Any]
    used: Mapping[str, str]
    artifacts: Mapping[str, str]
    records: str
    accepted: list[dict[str, str]] = field(default_factory=list)
    provenance: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


_KNOWN = frozenset(entry.name for entry in fields(RunRecord))


@dataclass(frozen=True)
class Results:
    """The results folder: runs, job markers and the work in progress.

    A run folder is complete or absent: it is written under `.work` and renamed into place.
    """

    root: Path

    def folder(self, run: Run) -> Path:
        """Where the run's records, artifacts, provenance and outcome lie."""
        return self.root / run.path

    def work(self, first: Run) -> Path:
        """Where the call of `run()` that begins with this run keeps its checkpoint and unfinished records."""
        return self.root / ".work" / first.path

    def stored(self, run: Run) -> RunRecord | None:
        """outcome.json of the run, None where there is none that can be read."""
        content = integrity.examined(self.folder(run)).content
        return None if content is None else RunRecord(**{k: v for k, v in content.items() if k in _KNOWN})

    def damage(self, run: Run) -> str | None:
        """What of the run's folder is not as outcome.json states; None if nothing is, or there is no such file."""
        return integrity.examined(self.folder(run)).damage

    def provenance(self, run: Run) -> dict[str, Any] | None:
        """provenance.json of the run, None where there is none that can be believed."""
        found = integrity.examined(self.folder(run))
        if found.content is None or found.damage is not None:
            return None
        facts: dict[str, Any] = read_json(self.folder(run) / "provenance.json")
        return facts

    def store(self, folder: Path, record: RunRecord) -> None:
        """Write outcome.json into a run folder."""
        write_json(folder / "outcome.json", asdict(record))

    def marker(self, job: Job) -> dict[str, Outcome]:
        """Outcomes by run as the job's last execution left them; empty where it never ended or cannot be read."""
        try:
            stated = peek_json(self.root / job.marker)["runs"].items()
            return {
                name: Outcome(outcome["status"], outcome["reason"], outcome["identity"]) for name, outcome in stated
            }
        except (OSError, LookupError, TypeError, AttributeError):
            return {}

    def write_marker(self, job: Job, outcomes: Mapping[str, Outcome], seconds: float) -> None:
        """Write the job's marker, the file that the workflow waits for."""
        content = {
            "job": {"paper": job.paper, "experiment": job.experiment, "scale": job.scale, "seconds": seconds},
            "runs": {name: asdict(outcome) for name, outcome in outcomes.items()},
        }
        write_json(self.root / job.marker, content)


def plain_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """A row of records as plain numbers, truth values and texts.

    Raises:
        TypeError: a value is no number, truth value or text.
        ValueError: an integer has more than 64 bits, or a text holds what is no character.
    """
    return {name: _plain(value, name) for name, value in values.items()}


def encode_row(row: Mapping[str, Any]) -> str:
    """One line of records.jsonl; floats round-trip exactly, NaN and infinities included."""
    return json.dumps(row) + "\n"


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a records.jsonl."""
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


def kind_of(value: Any) -> str:
    """What a table calls a column of such values."""
    return {bool: "truth values", str: "texts"}.get(type(value), "numbers")


def _plain(value: Any, name: str) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TypeError(f"record {name!r} must be a number, a truth value or a text, not {type(value).__name__}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"record {name!r} is an integer of more than 64 bits; record it as a float or a text")
    for text in (name, value):
        if isinstance(text, str) and any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"record {name!r} holds half of a surrogate pair, which is no character: {text!r}")
    return value
