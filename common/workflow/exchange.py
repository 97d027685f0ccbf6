"""Results that travel: an archive from a box without the workflow, and taking them over elsewhere.

Nothing is believed that cannot be checked: a run is taken over only if its inputs are those of this checkout
and its files have the digests that its outcome.json states.
"""

import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from common.datasets.archives import UnsafeArchive, unpack
from common.errors import UserError
from common.experiments import integrity
from common.experiments.grid import Job, Run
from common.experiments.identity import Identities
from common.experiments.outcomes import COMPUTED, Outcome, Results, RunRecord
from common.experiments.replication import Replication
from common.files import TEMPORARY, atomic_path, published, read_json, write_json
from common.workflow.state import Folders, analysis_digest, run_states

PART_BYTES = 15 * 2**20
"""Largest part of an archive: what mail, forms and small transfers take."""
ARCHIVES = (".tar", ".tar.gz", ".tgz")
_OTHER_ARCHIVES = (".zip", ".7z", ".gz", ".bz2", ".xz", ".zst", ".tbz2", ".txz")


@dataclass
class Adoption:
    """What `adopt` did with the runs of a replication."""

    taken: int = 0
    current: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{self.taken} runs taken over, {self.current} were current"
        return text + (f", {len(self.refused)} refused: {self.refused[0]}" if self.refused else "")


def archive_place(out: Path) -> tuple[Path, Path | None]:
    """The results folder that `out` names, and the archive to make of it where the name is one of an archive.

    Raises:
        UserError: the name is one of another kind of archive, or a folder has the archive's name.
    """
    for ending in ARCHIVES:
        stem = out.name.removesuffix(ending)
        if stem and stem != out.name:
            if out.is_dir():
                raise UserError(f"{out} is a folder; name an archive that can be written, or a folder of another name.")
            return out.with_name(stem), out
    if out.suffix in _OTHER_ARCHIVES:
        raise UserError(f"{out}: of archives only {', '.join(ARCHIVES)} are made; name one, or a folder.")
    return out, None


def write_archive(results: Path, archive: Path) -> list[Path]:
    """Pack the finished runs and markers of a results folder; in parts `X.tar.000`, … if it is large.

    Returns:
        The files written.
    """
    for old in [archive, *archive.parent.glob(f"{archive.name}.[0-9][0-9][0-9]")]:
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as temporary:
        whole = Path(temporary) / "whole.tar"
        with tarfile.open(whole, "w:gz") as tar:
            for path in [*published(results), results / ".jobs"]:
                if path.exists():
                    tar.add(path, arcname=path.name, filter=_complete)
        if whole.stat().st_size <= PART_BYTES:
            whole.replace(archive)
            return [archive]
        parts: list[Path] = []
        with whole.open("rb") as stream:
            while chunk := stream.read(PART_BYTES):
                part = archive.with_name(f"{archive.name}.{len(parts):03d}")
                with atomic_path(part) as place:
                    place.write_bytes(chunk)
                parts.append(part)
        return parts


def _complete(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what another process is writing."""
    return None if member.name.endswith(TEMPORARY) else member


@contextmanager
def opened(source: Path) -> Iterator[Path]:
    """The results folder behind a folder or an archive (whole, or the first or common name of its parts).

    Raises:
        UserError: there is no such folder or archive, or it is damaged.
    """
    if source.is_dir():
        yield source
        return
    name = source.name.removesuffix(".000")
    parts = (
        [source] if source.is_file() and name == source.name else sorted(source.parent.glob(f"{name}.[0-9][0-9][0-9]"))
    )
    if not parts:
        raise UserError(f"{source}: no such folder or archive.")
    with tempfile.TemporaryDirectory() as temporary:
        packed = Path(temporary) / "whole.tar.gz"
        with packed.open("wb") as joined:
            for part in parts:
                joined.write(part.read_bytes())
        folder = Path(temporary) / "results"
        try:
            with gzip.open(packed) as stream:
                while stream.read(2**20):  # to its end: a lost last part is found
                    pass
            unpack(packed, folder)
        except (UnsafeArchive, EOFError, OSError, zlib.error) as error:
            raise UserError(f"{source}: damaged archive ({error}); fetch it again, with all of its parts.") from error
        yield folder


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


def touch(replication: Replication, scale: str, folders: Folders) -> None:
    """Tell Snakemake that what lies there is up to date, as far as it is."""
    identities = Identities(replication, folders.store)
    jobs = replication.jobs(scale)
    if not all(identities.current(run) for job in jobs for run in job.runs):
        return
    targets = [f"results/{job.marker.as_posix()}" for job in jobs]
    analysis = folders.analysis(scale, replication.name)
    made = read_json(analysis / "state.json") if (analysis / "state.json").is_file() else {}
    if made.get("digest") == analysis_digest(replication):
        targets = [f"analysis/{scale}/{replication.name}/verdicts.json"]
    _snakemake(folders.root, scale, "--touch", *targets)


def up_to_date(replication: Replication, scale: str, folders: Folders) -> bool:
    """Whether Snakemake has nothing to do up to the verdicts of a paper."""
    target = f"analysis/{scale}/{replication.name}/verdicts.json"
    return "Nothing to be done" in _snakemake(folders.root, scale, "--dry-run", target)


def _snakemake(root: Path, scale: str, option: str, *targets: str) -> str:
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "1",
        option,
        "--config",
        f"scale={scale}",
        "--",
        *targets,
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"snakemake {option} failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout + done.stderr


def track(replications: Mapping[str, Replication], scale: str, folders: Folders) -> list[str]:
    """Have DVC record what the workflow made; returns the stages.

    Raises:
        UserError: something is due or damaged, so that what lies there must not be recorded.
    """
    from common.workflow.tracking import stage_name, sync

    for name, replication in replications.items():
        for state in run_states(replication, scale, folders.store):
            if state.outcome.status == "damaged":
                raise UserError(f"{state.run} is damaged: {state.outcome.reason}: run `make reports` first.")
        if not up_to_date(replication, scale, folders):
            raise UserError(f"{name} is not up to date at scale {scale}: run `make reports` first.")
    stages = [stage_name(name, scale) for name in replications]
    sync(folders.root, also=stages)
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "commit", "--force", *stages],
        cwd=folders.root,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise UserError(f"dvc commit failed: {done.stderr.strip()}")
    return stages
