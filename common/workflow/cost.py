"""What a scale will cost before it is submitted: hours, wall time, memory, disk, and on what the estimate rests.

What a run takes comes from `timings.py`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.experiments.grid import Run
from common.experiments.identity import Identities
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.workflow.devices import SPARE, Device
from common.workflow.timings import TIME_LIMIT, Estimate, GpuMemory, Timings


@dataclass(frozen=True)
class ExperimentCost:
    """What the due runs of an experiment will cost.

    Attributes:
        jobs: that hold a due run.
        hours: device hours (GPU hours where a job asks for GPUs, else core hours): estimate, lower, upper.
        limit_hours: of the estimate, those of runs of which nothing but their time limit is known.
        runtime: hours for which a job asks at its first attempt.
        longest_at_most: hours of the job that may take longest, without those of which the time limit alone is known.
        shortest, longest: hours of a job.
        needs: experiments of the paper with due runs that its runs start from, directly or not, in that order.
        path, path_hours: the experiments of the longest chain of due jobs, each of which waits for the one before,
            that ends here, and its hours; less wall time is not to be had.
        memory_mb: peak, recorded or of a trial; what the job asks for where nothing was measured.
        gpu_memory: of the largest call; None where none was rehearsed or counted, and without a GPU.
        too_large: whether one seed of a call needs more than the GPU has for which the plan is made; a call whose seeds
            do not fit together is computed in parts.
        disk_mb: of the due runs' folders; None where nothing was recorded.
        basis: what it rests on, each source once.
    """

    paper: str
    experiment: str
    jobs: int
    runs: int
    devices: int
    gpu: bool
    hours: tuple[float, float, float]
    shortest: float
    longest: float
    needs: tuple[str, ...]
    path: tuple[str, ...]
    path_hours: float
    memory_mb: float
    measured_memory: bool
    disk_mb: float | None
    basis: tuple[str, ...]
    gpu_memory: GpuMemory | None = None
    too_large: bool = False
    limit_hours: float = 0.0
    runtime: float = math.inf
    longest_at_most: float = 0.0

    @property
    def tight(self) -> bool:
        """Whether a job may take longer than it asks for at first."""
        return self.longest_at_most > self.runtime

    @property
    def name(self) -> str:
        """Paper and experiment."""
        return f"{self.paper}/{self.experiment}"


def costs(
    replication: Replication,
    scale: str,
    results: Results,
    device_factor: float = 1.0,
    gpu: Device | None = None,
) -> list[ExperimentCost]:
    """The cost of the due runs of each experiment of a paper at a scale; nothing for what is current."""
    timings = Timings(replication, scale, results, device_factor, gpu=gpu)
    identities = Identities(replication, results)
    by_experiment: dict[str, list[_Due]] = {}
    ends: dict[Path, _Chain] = {}  # of each due run
    for job in replication.jobs(scale):
        due: dict[str, list[Run]] = {}
        for run in job.runs:
            if not identities.current(run):
                due.setdefault(run.experiment, []).append(run)
        parts = {name: [timings.run(run, job) for run in runs] for name, runs in due.items()}
        taken = {name: _total(estimates) for name, estimates in parts.items()}
        needed = [path for runs in due.values() for run in runs for path in _needed(replication, run)]
        before = max((ends[path] for path in needed if path in ends), default=_Chain())
        chain = before.then(tuple(due), sum(one.seconds for one in taken.values()) / 3600)
        ends |= {run.path: chain for runs in due.values() for run in runs}
        for name, runs in due.items():
            limit = sum(one.seconds for one in parts[name] if one.basis == TIME_LIMIT)
            by_experiment.setdefault(name, []).append(_Due(runs, taken[name], limit))
    return [_cost(timings, name, due, ends) for name, due in by_experiment.items()]


@dataclass(frozen=True)
class _Due:
    """The due runs of an experiment in a job, what they take, and seconds of it that are time limits."""

    runs: list[Run]
    taken: Estimate
    limit: float


@dataclass(frozen=True, order=True)
class _Chain:
    """Jobs of which each waits for the one before: their hours, and the experiments of their runs."""

    hours: float = 0.0
    experiments: tuple[str, ...] = ()

    def then(self, experiments: tuple[str, ...], hours: float) -> "_Chain":
        return _Chain(self.hours + hours, (*self.experiments, *experiments))


def _needed(replication: Replication, run: Run) -> list[Path]:
    return [needed.path for needed in replication.needed(run).values()]


def _all_needed(replication: Replication, runs: Sequence[Run], due: Collection[Path]) -> list[str]:
    """The other experiments with due runs that these runs start from, directly or not, needed ones first."""
    found: set[str] = set()
    seen: set[Path] = set()
    waiting = list(runs)
    while waiting:
        for needed in replication.needed(waiting.pop()).values():
            if needed.path in due and needed.path not in seen:
                seen.add(needed.path)
                found.add(needed.experiment)
                waiting.append(needed)
    return [name for name in replication.experiments if name in found - {runs[0].experiment}]


def _cost(timings: "Timings", experiment: str, due: Sequence[_Due], ends: Mapping[Path, _Chain]) -> ExperimentCost:
    replication = timings.replication
    resources = replication.experiment(experiment).resources_at(timings.scale)
    devices = resources.gpus or resources.cpus
    jobs = [job.taken for job in due]
    total = _total(jobs)
    runs = [run for job in due for run in job.runs]
    path = max(ends[run.path] for run in runs)
    memory = timings.peak_memory_mb(experiment)
    held = timings.gpu_memory(experiment) if resources.gpus else []
    known = [job for job in jobs if TIME_LIMIT not in job.basis.split("; ")]
    each = timings.disk_mb(experiment)
    return ExperimentCost(
        paper=replication.name,
        experiment=experiment,
        jobs=len(due),
        runs=len(runs),
        devices=devices,
        gpu=resources.gpus > 0,
        hours=(devices * total.seconds / 3600, devices * total.lower / 3600, devices * total.upper / 3600),
        shortest=min(job.seconds for job in jobs) / 3600,
        longest=max(job.seconds for job in jobs) / 3600,
        needs=tuple(_all_needed(replication, runs, ends)),
        path=path.experiments,
        path_hours=path.hours,
        memory_mb=resources.mem_mb if memory is None else memory,
        measured_memory=memory is not None,
        disk_mb=None if each is None else each * len(runs),
        basis=tuple(dict.fromkeys(part for job in jobs for part in job.basis.split("; "))),
        gpu_memory=max(held, key=lambda memory: memory.all_seeds, default=None),
        too_large=timings.gpu is not None and any(one.least > SPARE * timings.gpu.memory_gb for one in held),
        limit_hours=devices * sum(job.limit for job in due) / 3600,
        runtime=resources.runtime / 60,
        longest_at_most=max((job.upper for job in known), default=0.0) / 3600,
    )


def _total(parts: Sequence[Estimate]) -> Estimate:
    """The sum; sources once each. The bounds add up, as if all parts erred together: timings of one machine do."""
    basis = "; ".join(dict.fromkeys(part.basis for part in parts))
    return Estimate(
        sum(part.seconds for part in parts), sum(part.lower for part in parts), sum(part.upper for part in parts), basis
    )


def gpu_hours(found: Sequence[ExperimentCost]) -> tuple[float, float, float]:
    """Estimate, lower and upper bound of all that asks for GPUs."""
    return total_hours([cost for cost in found if cost.gpu])


def core_hours(found: Sequence[ExperimentCost]) -> tuple[float, float, float]:
    """Estimate, lower and upper bound of all that asks for none."""
    return total_hours([cost for cost in found if not cost.gpu])


def total_hours(found: Sequence[ExperimentCost]) -> tuple[float, float, float]:
    """Estimate, lower and upper bound in all."""
    centre, lower, upper = (sum(cost.hours[part] for cost in found) for part in range(3))
    return centre, lower, upper


def wall_hours(found: Sequence[ExperimentCost], devices: int) -> float:
    """At least so long on `devices` GPUs (and as many CPU jobs beside them): the work shared out, or the longest chain.

    What the jobs wait for counts, too, where it is due.
    """
    gpu = sum(cost.hours[0] for cost in found if cost.gpu) / devices
    cpu = sum(cost.hours[0] / cost.devices for cost in found if not cost.gpu) / devices
    return max([gpu, cpu, *(cost.path_hours for cost in found)], default=0.0)
