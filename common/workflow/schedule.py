"""The schedule of a build: which job goes first, how long all take on some cores, and how long those that are left."""

import heapq
import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from common.experiments.outcomes import COMPUTED
from common.files import peek_json
from common.workflow.progress import Watched

Kind = TypeVar("Kind", bound=Hashable)

TRUST = 0.1
"""What was expected of all counts as much as seeing this share of all the work."""
TRUST_OF_KIND = 0.1
"""What the others say of an experiment counts as much as seeing this share of its own work."""
LARGEST = math.log(3.0)
"""What one experiment says of others: at most that they take three times, at least a third of what was expected."""
SETTLING = 1.0
"""Seconds of a continued job before its rate is taken: it comes to where it was within these."""


@dataclass(frozen=True)
class Task:
    """A job or another step as the scheduler sees it.

    Attributes:
        seconds: that it takes, its start included.
        kind: what takes similar times relative to what was expected: an experiment.
        priority: of ready tasks the highest starts first.
        needs: tasks that end before it starts; those that are not to be done are no hindrance.
        start: seconds of its process before it does anything.
        current: share of its runs that need not be computed; `seconds` are of the others.
        interrupted: whether an earlier build left a checkpoint of it, so that it may begin in the midst.
    """

    id: str
    seconds: float
    kind: str = ""
    cores: int = 1
    priority: float = 0.0
    needs: frozenset[str] = frozenset()
    start: float = 0.0
    current: float = 0.0
    interrupted: bool = False


def makespan(tasks: Iterable[Task], cores: int, running: Sequence[Task] = ()) -> float:
    """Seconds until the last task has ended, each started as soon as its cores are free, by priority.

    Args:
        running: tasks that occupy their cores already; their `seconds` are those left.
    """
    waiting = {task.id: task for task in tasks}
    under_way = {task.id for task in running}
    open_needs = {task.id: set(task.needs) & (waiting.keys() | under_way) for task in waiting.values()}
    dependents: dict[str, list[str]] = {}
    for name, needs in open_needs.items():
        for need in needs:
            dependents.setdefault(need, []).append(name)
    ready = [(-task.priority, number, task) for number, task in enumerate(waiting.values()) if not open_needs[task.id]]
    heapq.heapify(ready)
    numbers = {name: number for number, name in enumerate(waiting)}
    free = cores - sum(min(task.cores, cores) for task in running)
    ends = [(task.seconds, -1 - number, task) for number, task in enumerate(running)]
    heapq.heapify(ends)
    now = 0.0
    while ready or ends:
        while ready and min(ready[0][2].cores, cores) <= free:
            _, number, task = heapq.heappop(ready)
            free -= min(task.cores, cores)
            heapq.heappush(ends, (now + task.seconds, number, task))
        now, _, task = heapq.heappop(ends)
        free += min(task.cores, cores)
        for name in dependents.get(task.id, ()):
            open_needs[name].discard(task.id)
            if not open_needs[name]:
                heapq.heappush(ready, (-waiting[name].priority, numbers[name], waiting[name]))
    return now


def with_dependents(minutes: Mapping[Kind, float], needs: Mapping[Kind, Collection[Kind]]) -> dict[Kind, float]:
    """Of each kind of job its own minutes and those of all that waits for it, directly or not: its priority."""
    waits_for: dict[Kind, set[Kind]] = {kind: set() for kind in minutes}
    for kind in minutes:
        reached, open_ = {kind}, [kind]
        while open_:
            found = {other for other in needs.get(open_.pop(), ()) if other in minutes} - reached
            reached |= found
            open_ += found
        for other in reached:
            waits_for[other].add(kind)
    return {kind: sum(minutes[other] for other in waiting) for kind, waiting in waits_for.items()}


@dataclass
class _Sight:
    """Where a running job began, and the latest look at it: fraction done and seconds gone."""

    begun: tuple[float, float]
    fraction: float
    seconds: float

    @property
    def share(self) -> float:
        """Of what was left where it began, the share that is done."""
        left = 1.0 - self.begun[0]
        return min(max((self.fraction - self.begun[0]) / left, 0.0), 1.0) if left > 0 else 1.0

    @property
    def observed(self) -> float:
        """Seconds since it began."""
        return max(self.seconds - self.begun[1], 0.0)


class TimeLeft:
    """The seconds left of a build, told what has ended and what runs.

    Of each experiment the seconds seen over those expected are taken of its jobs that ended and of the parts done
    of those that run. An experiment of which little was seen is taken to differ from what was expected as the
    others do, and while little was seen of all, what was expected counts.
    """

    def __init__(self, tasks: Sequence[Task], cores: int, ahead: float = 0.0) -> None:
        """
        Args:
            tasks: all that is to be done.
            ahead: seconds before the first task starts.
        """
        self._tasks = {task.id: task for task in tasks}
        self._cores, self._ahead = cores, ahead
        self._sights: dict[str, _Sight] = {}
        self._total: dict[str, float] = {}
        for task in tasks:
            self._total[task.kind] = self._total.get(task.kind, 0.0) + task.seconds - task.start
        self._last_end: tuple[int, float] = (0, 0.0)

    def seconds(self, gone: float, ended: Mapping[str, float | None], running: Sequence[Watched]) -> float:
        """Seconds left.

        Args:
            gone: seconds since the build began.
            ended: tasks that have ended with the seconds that each computed, None where that says nothing. What
                one needed that runs or has ended is over, too.
            running: tasks under way.
        """
        running = [job for job in running if job.id in self._tasks and job.id not in ended]
        for job in running:
            self._look(job)
        ratios = self._ratios(ended, running)
        flying = [self._rest(self._tasks[job.id], ratios, job.seconds) for job in running]
        busy = {job.id for job in running}
        over = {name for task in self._tasks.values() if task.id in ended or task.id in busy for name in task.needs}
        waiting = [
            replace(task, seconds=task.start + (task.seconds - task.start) * ratios[task.kind])
            for task in self._tasks.values()
            if task.id not in ended and task.id not in busy and task.id not in over
        ]
        if len(ended) != self._last_end[0] or running:
            self._last_end = (len(ended), gone)
        left = makespan(waiting, max(self._cores, len(running)), flying)
        if not running:  # something is under way that tells nothing: Snakemake's start, the start of a job, a page
            started = bool(ended or self._sights)
            left = max(left + (0.0 if started else self._ahead) - (gone - self._last_end[1]), 0.0)
        return left

    def _look(self, job: Watched) -> None:
        task, sight = self._tasks[job.id], self._sights.get(job.id)
        if sight is None or job.seconds < sight.seconds:  # its first attempt, or another one
            sight = self._sights[job.id] = _Sight((task.current, 0.0), job.fraction, job.seconds)
        if task.interrupted and sight.seconds < SETTLING:
            sight.begun = (job.fraction, job.seconds)
        sight.fraction, sight.seconds = job.fraction, job.seconds

    def _ratios(self, ended: Mapping[str, float | None], running: Sequence[Watched]) -> dict[str, float]:
        """Seconds seen over seconds expected of each kind of task, pooled with the others and with 1."""
        expected = dict.fromkeys(self._total, 0.0)
        seen = dict.fromkeys(self._total, 0.0)
        for name, seconds in ended.items():
            task = self._tasks.get(name)
            if task is not None and seconds is not None:
                expected[task.kind] += self._work(task)
                seen[task.kind] += seconds
        for job in running:
            task, sight = self._tasks[job.id], self._sights[job.id]
            expected[task.kind] += self._work(task) * sight.share**2  # the first tenth says little of the rest
            seen[task.kind] += sight.observed * sight.share
        logs = {kind: math.log(seen[kind] / expected[kind]) for kind in seen if seen[kind] > 0 and expected[kind] > 0}
        weight = sum(expected[kind] for kind in logs) + TRUST * sum(self._total.values())
        overall = sum(expected[kind] * min(max(logs[kind], -LARGEST), LARGEST) for kind in logs) / max(weight, 1e-9)
        pooled = {}
        for kind, total in self._total.items():
            own = expected[kind] if kind in logs else 0.0
            others = TRUST_OF_KIND * total
            pooled[kind] = math.exp((own * logs.get(kind, 0.0) + others * overall) / max(own + others, 1e-9))
        return pooled

    def _work(self, task: Task) -> float:
        """Seconds expected of a task's due runs, less what an interrupted build had done of them before."""
        begun = self._sights[task.id].begun[0] if task.id in self._sights else 0.0
        resumed = max(begun - task.current, 0.0) / max(1.0 - task.current, 1e-9)
        return (task.seconds - task.start) * (1.0 - resumed)

    def _rest(self, task: Task, ratios: Mapping[str, float], gone: float) -> Task:
        """A running task with the seconds left to it: by the kind's ratio at first, ever more by its own rate."""
        sight = self._sights[task.id]
        work = self._work(task) * ratios[task.kind]
        if sight.share == 0.0:  # it has told nothing so far
            left = max(work - gone, 0.1 * work)
        else:
            own = sight.observed / sight.share
            left = (1.0 - sight.share) * ((1.0 - sight.share) * work + sight.share * own)
        return Task(task.id, left, task.kind, task.cores)


def computing_seconds(marker: Path) -> float | None:
    """Seconds that a job computed, by its marker; None where it failed, did nothing or is being written."""
    try:
        content = peek_json(marker)
        whole = all(outcome["status"] in COMPUTED for outcome in content["runs"].values())
        return float(content["job"]["seconds"]) if whole else None
    except (OSError, LookupError, TypeError, ValueError):
        return None
