"""`replicate adopt`: taking over results that were computed elsewhere.

Nothing is believed that cannot be checked: a run is taken over only if its inputs are those of this checkout
and its files have the digests that its outcome.json states.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from common.experiments import integrity
from common.experiments.grid import Job, Run
from common.experiments.identity import Identities
from common.experiments.outcomes import COMPUTED, Outcome, Results, RunRecord
from common.experiments.replication import Replication
from common.files import write_json
from common.workflow.archives import opened
from common.workflow.state import Folders


@dataclass
class Adoption:
    """What `adopt` did with the runs of a replication; `found` lie in what it was given, current ones included."""

    found: int = 0
    taken: int = 0
    current: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{self.taken} runs taken over, {self.current} were current"
        return text + (f", {len(self.refused)} refused: {self.refused[0]}" if self.refused else "")


def adopt(replication: Replication, scale: str, folders: Folders, source: Path | None) -> Adoption:
    """Take over runs, from `source` or as they lie in the results folder, and mark their jobs as done.

    Args:
        source: folder or archive of another box; None: what a `dvc pull` brought.
    """
    report = Adoption()
    identities = Identities(replication, folders.store)
    if source is not None:
        with opened(source) as other:
            for job in replication.jobs(scale):
                for run in job.runs:
                    report.found += Results(other).folder(run).is_dir()
                    _take(run, Results(other), folders.store, identities, report)
    else:
        for job in replication.jobs(scale):
            for run in job.runs:
                _forgive(run, folders.store)
    for job in replication.jobs(scale):
        _mark(job, replication, folders, identities, report, verify=source is None)
    return report


def _take(run: Run, other: Results, mine: Results, identities: Identities, report: Adoption) -> None:
    if identities.current(run):
        return
    stored = other.stored(run)
    problem = other.damage(run) if stored is None else None
    if problem is None:
        if stored is None or stored.status not in COMPUTED:
            return
        problem = integrity.difference(other.folder(run), asdict(stored)) or _foreign(stored, identities.inputs(run))
    if problem is not None:
        report.refused.append(f"{run}: {problem}")
        return
    place = mine.folder(run)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".adopt-") as temporary:
        copy = Path(temporary) / "run"
        shutil.copytree(other.folder(run), copy, ignore=shutil.ignore_patterns(integrity.MARK))
        if place.exists():
            place.rename(Path(temporary) / "old")
        copy.rename(place)
    report.taken += 1


def _forgive(run: Run, results: Results) -> None:
    """Take the mark of a damaged artifact away where the artifact is what it was (DVC may have brought it back)."""
    stored, mark = results.stored(run), results.folder(run) / integrity.MARK
    if stored is not None and mark.is_file() and integrity.difference(mark.parent, asdict(stored)) is None:
        mark.unlink(missing_ok=True)


def _foreign(stored: RunRecord, inputs: Mapping[str, object]) -> str | None:
    differs = [name for name in ("code", "parameters", "data") if stored.inputs.get(name) != inputs[name]]
    return f"it was computed with other {' and '.join(differs)}" if differs else None


def _mark(
    job: Job, replication: Replication, folders: Folders, identities: Identities, report: Adoption, *, verify: bool
) -> None:
    """Write the marker of a job whose runs are all current, and those of its data sets."""
    outcomes = {}
    for run in job.runs:
        problem = folders.store.damage(run)
        stored = folders.store.stored(run) if problem is None and identities.current(run) else None
        if stored is not None and verify:
            problem = integrity.difference(folders.store.folder(run), asdict(stored))
        if problem is not None:
            report.refused.append(f"{run}: {problem}")
        if problem is not None or stored is None:
            return
        outcomes[run.key] = Outcome(stored.status, stored.reason, identities.digest(run))
    report.current += len(job.runs)
    for run in job.runs:
        for name, digest in identities.inputs(run)["data"].items():
            marker = folders.results / ".jobs" / job.scale / job.paper / ".data" / f"{name}.json"
            if not marker.is_file():
                write_json(marker, {"name": name, "digest": digest, "explanation": "The runs taken over used it."})
    if folders.store.marker(job) != outcomes:
        folders.store.write_marker(job, outcomes, 0.0)
