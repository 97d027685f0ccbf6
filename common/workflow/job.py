"""The steps of the workflow that compute: a job, what is left of a killed one, and a data set."""

import os
import socket
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common.errors import UserError
from common.experiments.grid import Job
from common.experiments.identity import Identities
from common.experiments.outcomes import Outcome
from common.experiments.replication import Replication
from common.files import write_json
from common.workflow.discovery import find
from common.workflow.ownership import ENDED, attended
from common.workflow.run import UNFINISHED, clock_of, execute, exit_code, summary
from common.workflow.slurm import inside_a_job, minutes_left, queue_again
from common.workflow.state import Folders

WITHOUT_GPU = "REPLICATIONS_WITHOUT_GPU"
"""Variable of a job that may compute without the GPU that it asked for."""


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


@dataclass(frozen=True)
class Attempt:
    """Which attempt at a job this is, and how many there are at most.

    Attributes:
        turns: how often Slurm may start it, where its partition ends jobs before they have had the time that they want.
    """

    number: int = 1
    of: int = 1
    turns: int = 1

    @property
    def last(self) -> bool:
        """Whether no other one follows."""
        return self.number >= self.of

    def __str__(self) -> str:
        return f"Attempt {self.number} of {self.of}"


def job_step(folders: Folders, marker: str, scale: str, attempt: Attempt, minutes: float | None) -> int:
    """The workflow's `run` rule: execute a job.

    Before the last attempt an unsettled job exits non-zero and is tried again; the last one leaves its marker
    whatever became of the runs, so that what there is gets analysed. One that was asked to end leaves none: the
    workflow ends as well. One whose partition ended it early is queued again, which takes no attempt.
    """
    print(
        f"{attempt} on {socket.gethostname()}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC.",
        flush=True,
    )
    if inside_a_job():
        os.environ.setdefault("REPLICATIONS_OFFLINE", "1")  # a compute node fetches nothing: the data rule has
    replication, job = _job_of(folders, marker, scale)
    clock = clock_of(minutes)
    try:
        _check_gpus(replication, job)
        outcomes = execute(folders, replication, job, clock, retry=frozenset({"failed"}), wait=True)
    except UserError as error:
        print(f"replicate: {error}", file=sys.stderr)
        if not attempt.last:
            return 2
        outcomes = _all_failed(folders, replication, job, str(error))
    print(summary(outcomes))
    code = exit_code(outcomes)
    if code and clock.stop_requested and attended():
        return ENDED
    if code == UNFINISHED and not clock.stop_requested and queue_again(attempt.turns):
        return code
    return 0 if attempt.last else code


def _check_gpus(replication: Replication, job: Job) -> None:
    """Refuse to compute on a node's processor what was given a GPU to compute on.

    Raises:
        UserError: inside a Slurm job torch sees no GPU, the experiment asks for one, and nobody said that it may do
            without.
    """
    experiments = {run.experiment for run in job.runs}
    asked = any(replication.experiment(name).resources_at(job.scale).gpus for name in experiments)
    if not (asked and inside_a_job()) or WITHOUT_GPU in os.environ:
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"{socket.gethostname()}: the job asked for a GPU, and torch sees none: compare `nvidia-smi` there with "
            f"torch.version.cuda (docs/cluster.md, Drivers and GPUs), or set {WITHOUT_GPU}=1 to compute without."
        )


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
