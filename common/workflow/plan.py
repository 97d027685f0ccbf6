"""`replicate plan`: jobs, runs, which are current, and about how long the others take on this machine."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.experiments.calibration import here, ratio, reference, step_seconds
from common.experiments.grid import Job
from common.experiments.identity import Identities
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.experiments.workspace import Workspace
from common.workflow.progress import duration, job_name
from common.workflow.schedule import Task, TimeLeft, makespan, with_dependents
from common.workflow.timings import Timings


@dataclass(frozen=True)
class JobPlan:
    """A job with its number of runs and of current ones.

    Attributes:
        id: of the job; jobs of two papers share it where their runs have the same names.
        minutes: for the due runs on this machine: as recorded of the same settings, or seen in a trial of
            them, else by the `minutes` that config.yaml states; None where it states none.
        cores: that the job takes.
        needs: names of the jobs of the paper that end before it starts.
        interrupted: whether an earlier build left a checkpoint of one of its runs.
        data: data sets of the due runs that the workflow has not looked for yet.
        scale: for which it was planned.
    """

    paper: str
    experiment: str
    id: str
    runs: int
    current: int
    minutes: float | None
    cores: int = 1
    needs: frozenset[str] = frozenset()
    interrupted: bool = False
    data: frozenset[str] = frozenset()
    scale: str = ""

    @property
    def due(self) -> int:
        """Runs to compute."""
        return self.runs - self.current

    @property
    def name(self) -> str:
        """What tells it from every other job of the scale."""
        return job_name(self.paper, self.experiment, self.id)


def plan(
    replication: Replication, scale: str, results: Results, asked: Callable[[str, str], bool] = lambda *_: True
) -> list[JobPlan]:
    """The jobs of a paper at a scale, with the runs of those experiments that were `asked` for alone."""
    identities = Identities(replication, results)
    timings = Timings(replication, scale, results)
    jobs = replication.jobs(scale)
    job_of = {run.path: job_name(job.paper, job.experiment, job.id) for job in jobs for run in job.runs}
    mine = [replace(job, runs=tuple(run for run in job.runs if asked(job.paper, run.experiment))) for job in jobs]
    return [_job_plan(job, identities, timings, job_of) for job in mine if job.runs]


def _job_plan(job: Job, identities: Identities, timings: Timings, job_of: Mapping[Path, str]) -> JobPlan:
    replication = identities.replication
    due = [run for run in job.runs if not identities.current(run)]
    expected = [timings.announced(run, job) for run in due]
    known = [estimate.seconds for estimate in expected if estimate is not None]
    experiments = dict.fromkeys(run.experiment for run in job.runs)
    looked_for = identities.results.root / ".jobs" / job.scale / job.paper / ".data"
    data = {name for run in due for name in replication.datasets(run)}
    needed = {job_of[run.path] for mine in due for run in replication.needed(mine).values()}
    return JobPlan(
        paper=job.paper,
        experiment=job.experiment,
        id=job.id,
        runs=len(job.runs),
        current=len(job.runs) - len(due),
        minutes=sum(known) / 60 if len(known) == len(due) else None,
        cores=max(replication.experiment(name).resources_at(job.scale).cpus for name in experiments),
        needs=frozenset(needed - {job_name(job.paper, job.experiment, job.id)}),
        interrupted=any(Workspace(identities.results, [run]).checkpoint.is_file() for run in due),
        data=frozenset(name for name in data if not (looked_for / f"{name}.json").is_file()),
        scale=job.scale,
    )


def tasks(jobs: Sequence[JobPlan]) -> list[Task]:
    """The due jobs, their data sets, and analysis and page of each paper that has one, as the scheduler sees them.

    A job of which no time is known counts as a minute.
    """
    due = [job for job in jobs if job.due]
    start = step_seconds("start") if due else 0.0
    minutes = {job.name: 1.0 if job.minutes is None else job.minutes for job in due}
    kind_of = {job.name: _kind(job) for job in due}
    of_kind: dict[str, float] = {}
    kinds_needed: dict[str, set[str]] = {}
    for job in due:
        of_kind[_kind(job)] = of_kind.get(_kind(job), 0.0) + minutes[job.name]
        kinds_needed.setdefault(_kind(job), set()).update(kind_of[name] for name in job.needs if name in kind_of)
    priority = with_dependents(of_kind, kinds_needed)
    data = {job.name: {f"{job.paper}: data {name}" for name in job.data} for job in due}
    needs = {job.name: job.needs | data[job.name] for job in due}
    found = [
        Task(name, step_seconds("data"), "data", priority=math.inf) for name in sorted(set().union(*data.values()))
    ]
    found += [
        Task(
            job.name,
            start + 60 * minutes[job.name],
            _kind(job),
            job.cores,
            priority=priority[_kind(job)],
            needs=needs[job.name],
            start=start,
            current=job.current / job.runs,
            interrupted=job.interrupted,
        )
        for job in due
    ]
    for scale, paper in dict.fromkeys((job.scale, job.paper) for job in due):
        seconds = sum(step_seconds(step, of=f"{scale}/{paper}") for step in ("analyse", "page"))
        mine = frozenset(job.name for job in due if job.paper == paper)
        found.append(Task(f"{paper}: pages", seconds, "pages", needs=mine))
    return found


def time_left(jobs: Sequence[JobPlan], cores: int) -> TimeLeft:
    """The seconds left of a build of the due jobs, to be asked while it goes on."""
    return TimeLeft(tasks(jobs), cores, ahead=step_seconds("snakemake"))


def _kind(job: JobPlan) -> str:
    return f"{job.paper}/{job.experiment}"


def duration_text(jobs: Sequence[JobPlan], cores: int) -> str:
    """About how long the due jobs take on `cores` cores, start and pages included, as far as it is stated."""
    due = [job for job in jobs if job.due]
    unknown = sorted({_kind(job) for job in due if job.minutes is None})
    if unknown:
        return f"how long is not stated for {', '.join(unknown)}"
    seconds = step_seconds("snakemake") + makespan(tasks(jobs), cores)
    return f"about {duration(seconds)} on {cores} cores"


def machine_text() -> str:
    """How this machine compares with the one on which `minutes` were recorded."""
    if not here().seconds:
        return "This machine could not be timed; it is taken for the one on which `minutes` were recorded."
    times = ratio(here().seconds, reference().seconds)
    return f"A core of this machine takes {times:.2f} times as long as that on which `minutes` were recorded."
