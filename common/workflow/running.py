"""Executing from the command line and from the workflow: which jobs, with which exit code."""

import importlib
import os
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import UserError
from common.experiments.calibration import note_step
from common.experiments.grid import Job, Run
from common.experiments.identity import Identities
from common.experiments.outcomes import COMPUTED, SETTLED, Outcome
from common.experiments.replication import Replication, suggestion
from common.files import write_json
from common.workflow.discovery import find, healthy, make_importable, select
from common.workflow.ownership import ENDED, attended
from common.workflow.progress import JobProgress
from common.workflow.slurm import inside_a_job, minutes_left
from common.workflow.state import Folders

if TYPE_CHECKING:
    from common.experiments.context import Clock

RETRYABLE = ("failed",)


def run_target(folders: Folders, target: str, scale: str, minutes: float | None, retry: frozenset[str]) -> int:
    """Execute the jobs of `PAPER` or `PAPER/EXPERIMENT` in this process, needed experiments first.

    Returns:
        0 all is settled, 1 a run failed, 3 unfinished.
    """
    check_retry(retry)
    replication, experiment = select(folders.root, target)
    _, broken = healthy({replication.name: replication}, scale)
    if broken:
        raise UserError(broken[replication.name])
    if experiment and not (config := replication.experiment(experiment)).runs_at(scale):
        raise UserError(f"{target} has no run at scale {scale}: {config.left_out}.")
    importlib.import_module("common.experiments.execution")  # its two seconds are no computing time

    clock = _clock(minutes)
    outcomes: dict[str, Outcome] = {}
    for job in _jobs(replication, experiment, scale):
        outcomes |= execute(folders, replication, job, clock, retry)
    print(summary(outcomes))
    return exit_code(outcomes)


def _clock(minutes: float | None) -> "Clock":
    from common.experiments.context import Clock

    return Clock(None if minutes is None else time.monotonic() + 60 * minutes)


def check_retry(retry: Iterable[str]) -> None:
    """Raise `UserError` for an outcome that cannot be tried again."""
    for name in retry:
        if name not in RETRYABLE:
            raise UserError(
                f"--retry {name}: only 'failed' needs it; what is unfinished or unavailable is tried anyway."
            )


def _jobs(replication: Replication, experiment: str | None, scale: str) -> list[Job]:
    jobs = replication.jobs(scale)
    if experiment is None:
        return jobs
    wanted = {experiment, *_needed_experiments(replication, experiment)}
    parts = [
        Job(job.paper, name, job.scale, tuple(run for run in job.runs if run.experiment == name))
        for job in jobs
        for name in dict.fromkeys(run.experiment for run in job.runs)
    ]
    return [part for part in parts if part.experiment in wanted]


def _needed_experiments(replication: Replication, experiment: str) -> set[str]:
    direct = {need.experiment for need in replication.experiment(experiment).needs.values()}
    return direct.union(*(_needed_experiments(replication, name) for name in direct))


def execute(
    folders: Folders,
    replication: Replication,
    job: Job,
    clock: "Clock",
    retry: frozenset[str],
    *,
    wait: bool = False,
) -> dict[str, Outcome]:
    """Execute one job, showing its progress; `wait` for another process that computes the same runs."""
    make_importable(folders.root)
    from common.experiments.execution import DISK_FULL, Executor, prepare_torch, stopping_at_checkpoints

    experiments = dict.fromkeys(run.experiment for run in job.runs)
    cpus = max(replication.experiment(name).resources_at(job.scale).cpus for name in experiments)
    progress = JobProgress(folders.results, job)
    try:
        with stopping_at_checkpoints(clock):
            executor = Executor(replication, folders.store, prepare_torch(cpus), clock, retry, wait, progress)
            if wait:  # the workflow's: a process of its own, which has only started so far
                note_step("start")
            return executor.execute(job)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise OSError(
            f"{folders.results}: the disk is full; make room, or name another folder with --out. What is complete is "
            "kept, and the same command continues."
        ) from None
    finally:
        progress.close()


def exit_code(outcomes: Mapping[str, Outcome]) -> int:
    """1 if a run failed, 3 if one is unfinished, else 0."""
    statuses = {outcome.status for outcome in outcomes.values()}
    if "failed" in statuses:
        return 1
    return 0 if statuses <= set(SETTLED) else 3


def summary(outcomes: Mapping[str, Outcome]) -> str:
    """Counts by outcome, and each reason once."""
    by_status: dict[str, list[str]] = {}
    for outcome in outcomes.values():
        by_status.setdefault(outcome.status, []).append(outcome.reason)
    counts = ", ".join(f"{len(reasons)} {status.replace('_', ' ')}" for status, reasons in by_status.items())
    lines = [f"{len(outcomes)} runs: {counts}." if outcomes else "No runs."]
    for status, reasons in by_status.items():
        distinct = [reason for reason in dict.fromkeys(reasons) if reason]
        lines += [f"  {status.replace('_', ' ')}: {reason}" for reason in distinct[:3]]
        if status == "failed":
            lines.append("  (unchanged, a failed run is tried again with --retry failed)")
        lines += [f"  … and {len(distinct) - 3} reasons more (replicate status)"] if len(distinct) > 3 else []
    return "\n".join(lines)


def _job_of(folders: Folders, marker: str, scale: str) -> tuple[Replication, Job]:
    if len(Path(marker).parts) < 3:
        raise UserError(f"{marker} is no marker of a job.")
    paper = Path(marker).parts[-3]
    replication = find(folders.root, paper)
    for job in replication.jobs(scale):
        if job.marker.name == Path(marker).name and job.experiment == Path(marker).parts[-2]:
            return replication, job
    raise UserError(f"{marker} is no job of {paper} at scale {scale}.")


def allowed_minutes(runtime: float) -> float:
    """How long a job whose limit is `runtime` minutes may compute: it keeps two minutes, or half, to end in.

    On a cluster the clock began when the job did, not when this process did.
    """
    kept = min(2.0, runtime / 2)
    left = minutes_left()
    return max((runtime if left is None else min(left, runtime)) - kept, 0.0)


def job_step(folders: Folders, marker: str, scale: str, attempt: int, attempts: int, minutes: float | None) -> int:
    """The workflow's `run` rule: execute a job.

    Before the last attempt an unsettled job exits non-zero and is tried again; the last one leaves its marker
    whatever became of the runs, so that what there is gets analysed. One that was asked to end leaves none: the
    workflow ends as well.
    """
    last = attempt >= attempts
    print(
        f"Attempt {attempt} of {attempts} on {socket.gethostname()}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC.",
        flush=True,
    )
    if inside_a_job():
        os.environ.setdefault("REPLICATIONS_OFFLINE", "1")  # a compute node fetches nothing: the data rule has
    replication, job = _job_of(folders, marker, scale)
    clock = _clock(minutes)
    try:
        outcomes = execute(folders, replication, job, clock, frozenset({"failed"}), wait=True)
    except UserError as error:
        print(f"replicate: {error}", file=sys.stderr)
        if not last:
            return 2
        outcomes = _all_failed(folders, replication, job, str(error))
    print(summary(outcomes))
    code = exit_code(outcomes)
    if code and clock.stop_requested and attended():
        return ENDED
    return 0 if last else code


def killed_step(folders: Folders, marker: str, scale: str, code: int) -> None:
    """Leave a marker for a job whose process was killed (exit code 128 + signal)."""
    replication, job = _job_of(folders, marker, scale)
    reason = f"its process was killed by signal {code - 128} (9 is often: out of memory)"
    _all_failed(folders, replication, job, reason)


def _all_failed(folders: Folders, replication: Replication, job: Job, reason: str) -> dict[str, Outcome]:
    """Mark the runs of a job that have no current result as failed."""
    identities = Identities(replication, folders.store)
    outcomes = {}
    for run in job.runs:
        stored = folders.store.stored(run) if identities.current(run) else None
        done = Outcome(stored.status, stored.reason, identities.digest(run)) if stored else None
        outcomes[run.key] = done or Outcome("failed", reason, identities.digest(run))
    folders.store.write_marker(job, outcomes, 0.0)
    return outcomes


def data_step(name: str, marker: Path) -> None:
    """The workflow's `data` rule: it always succeeds and records a digest or the reasons."""
    from common.datasets import fetch

    report = fetch(name, log=print)
    print(report.explanation())
    write_json(marker, {"name": name, "digest": report.digest, "explanation": report.explanation()})


def accept(folders: Folders, target: str, scale: str, reason: str) -> str:
    """Set the code digest of stored runs to the present one, keeping the old one and the reason.

    Raises:
        UserError: no such run, or something besides the code differs.
    """
    if not reason.strip():
        raise UserError("accept: say why the change cannot matter (--reason …).")
    parts = target.split("/", 2)
    if len(parts) < 2:
        raise UserError(f"accept {target}: name PAPER/EXPERIMENT or PAPER/EXPERIMENT/RUN.")
    replication, experiment = select(folders.root, "/".join(parts[:2]))
    assert experiment is not None
    runs = replication.runs(experiment, scale)
    if len(parts) == 3:
        runs = [run for run in runs if run.name == parts[2]]
        if not runs:
            names = [run.name for run in replication.runs(experiment, scale)]
            raise UserError(f"{target}: no such run at scale {scale}{suggestion(parts[2], names)}")
    identities = Identities(replication, folders.store)
    accepted = [run for run in runs if _accept(folders, identities, run, reason)]
    return f"{len(accepted)} of {len(runs)} runs accepted at the present code."


def _accept(folders: Folders, identities: Identities, run: Run, reason: str) -> bool:
    stored = folders.store.stored(run)
    if stored is None or stored.status not in COMPUTED or identities.current(run):
        return False
    if (damage := folders.store.damage(run)) is not None:
        raise UserError(f"{run}: {damage}, which only a new run can mend.")
    now = identities.inputs(run)
    differs = [name for name in ("parameters", "data") if stored.inputs.get(name) != now[name]]
    if differs:
        raise UserError(f"{run}: its {' and '.join(differs)} differ too, which only a new run can mend.")
    entry = {
        "from": str(stored.inputs["code"]),
        "to": str(now["code"]),
        "reason": reason,
        "date": datetime.now(UTC).date().isoformat(),
    }
    record = replace(stored, inputs=now, accepted=[*stored.accepted, entry])
    folders.store.store(folders.store.folder(run), record)
    return True
