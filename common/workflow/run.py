"""`replicate run`: which jobs of a target are executed, and with which exit code."""

import importlib
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from common.errors import UserError
from common.experiments.calibration import note_step
from common.experiments.grid import Job
from common.experiments.outcomes import SETTLED, Outcome
from common.experiments.replication import Replication
from common.workflow.discovery import healthy, make_importable, select
from common.workflow.progress import JobProgress
from common.workflow.state import Folders

if TYPE_CHECKING:
    from common.experiments.context import Clock

RETRYABLE = ("failed",)
UNFINISHED = 3
"""Exit code."""


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

    clock = clock_of(minutes)
    outcomes: dict[str, Outcome] = {}
    for job in _jobs(replication, experiment, scale):
        outcomes |= execute(folders, replication, job, clock, retry=retry)
    print(summary(outcomes))
    return exit_code(outcomes)


def clock_of(minutes: float | None) -> "Clock":
    """A clock that stops after so many minutes, never if None."""
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
    *,
    retry: frozenset[str],
    wait: bool = False,
) -> dict[str, Outcome]:
    """Execute one job, showing its progress; `wait` for another process that computes the same runs."""
    make_importable(folders.root)
    from common.experiments.call import DISK_FULL, Conditions
    from common.experiments.execution import execute_job
    from common.experiments.process import prepare_torch, stopping_at_checkpoints

    experiments = dict.fromkeys(run.experiment for run in job.runs)
    cpus = max(replication.experiment(name).resources_at(job.scale).cpus for name in experiments)
    progress = JobProgress(folders.results, job)
    try:
        with stopping_at_checkpoints(clock):
            device = prepare_torch(cpus)
            conditions = Conditions(replication, folders.store, device, clock, retry=retry, wait=wait)
            if wait:  # the workflow's: a process of its own, which has only started so far
                note_step("start")
            return execute_job(job, conditions, progress)
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
    """1 if a run failed, `UNFINISHED` if one is unfinished, else 0."""
    statuses = {outcome.status for outcome in outcomes.values()}
    if "failed" in statuses:
        return 1
    return 0 if statuses <= set(SETTLED) else UNFINISHED


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
