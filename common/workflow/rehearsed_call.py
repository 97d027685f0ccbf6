"""One call, rehearsed: its stub begun, interrupted, resumed and ended, its memory counted, its first steps timed."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import common.datasets
from common.errors import UserError, told
from common.experiments import process
from common.experiments.call import Conditions
from common.experiments.context import Clock, RunContext
from common.experiments.execution import execute_job, parameters_of
from common.experiments.grid import Job, Run
from common.experiments.live_memory import LiveMemory
from common.experiments.outcomes import COMPUTED, Outcome, Results
from common.experiments.replication import Replication
from common.experiments.workspace import Workspace
from common.files import read_entries, write_json
from common.hessian import traces
from common.hessian.estimates import Accuracy
from common.hessian.problem import SAVED
from common.workflow.devices import SPARE
from common.workflow.footprint import Footprint, at_once, peak_gb, shortage
from common.workflow.made_data import files_or_made
from common.workflow.pretended_gpu import GPU, PretendedGpu
from common.workflow.rehearsed import Rehearsal, Rehearsed, provide, rehearsed, stands_for
from common.workflow.rehearsed_context import Enough, RehearsedContext, interrupt, leave
from common.workflow.state import Folders
from common.workflow.timings import trials_path
from common.workflow.trial import calls_of, timed

CPU = torch.device("cpu")

GPUS_GB = (16, 24, 40, 80)
"""Sizes of GPUs that a call is held against."""

IN_A_CHUNK = 5.0
"""How many times as much as its gradient keeps a product with the Hessian holds of a chunk, and a trace: 3.7 and 3.7 of
a small BERT, 3.8 and 4.5 of a convolutional network."""


@dataclass(frozen=True)
class Stage:
    """Where calls are rehearsed.

    Attributes:
        available_gb: memory of the device that a call may take.
        seconds: for which the real call is begun, to time its steps; 0 for not at all.
        again: whether every stub is computed a second time, uninterrupted, and the records compared.
    """

    folders: Folders
    scratch: Path
    device: torch.device
    available_gb: float
    seconds: float = 0.0
    again: bool = False

    def results(self, factor: int, again: bool = False) -> Results:
        """Results of runs whose sizes are so many times as large."""
        return Results(self.scratch / f"{'again' if again else 'sizes'}-{factor}")


@dataclass
class Rehearsing:
    """What came of the rehearsal of a call.

    Attributes:
        status: `ok`, `refused` for its memory, `unavailable` for its data, or `failed`.
        reason: a sentence, empty where all is well.
        seeds: of the real call.
        seconds: of the rehearsal, processor time.
        checkpoints: that were offered; it was interrupted at the second.
        counted_gb: tensors of the real call at its peak, with one seed and with all at once.
        measured_gb: peak of the rehearsal, on a GPU that of the GPU.
        fitting: seeds at once that fit each of `GPUS_GB`.
        made: data sets in whose place random ones stood.
        real_seconds: that the real call takes on this device by its first steps, and between which bounds.
        untimed: why that is not known.
    """

    paper: str
    experiment: str
    setting: str
    seeds: int
    status: str = "failed"
    reason: str = ""
    seconds: float = 0.0
    checkpoints: int = 0
    counted_gb: tuple[float, float] | None = None
    measured_gb: float = 0.0
    fitting: dict[int, int] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    real_seconds: tuple[float, float, float] | None = None
    untimed: str = ""


def rehearse(stage: Stage, replication: Replication, call: Rehearsal) -> Rehearsing:
    """One call: its stub through interruption and end, and the memory and time that the real one would take."""
    first = call.runs[0]
    found = Rehearsing(replication.name, first.experiment, call.name, call.seeds)
    started = time.process_time()
    stub = Stub(stage, rehearsed(replication), call.runs)
    outcome = stub.play()
    if outcome.status in COMPUTED and stage.again:
        outcome = _compared(stage, rehearsed(replication), call, outcome)
    if outcome.status in COMPUTED and _needed_larger(replication, call):
        outcome = Stub(stage, rehearsed(replication, 2), call.runs).play()
    found.checkpoints, found.measured_gb = stub.checkpoints, round(peak_gb(stage.device), 3)
    if outcome.status in COMPUTED:
        _count(found, stage, replication, call, stub)
        if stage.seconds and found.status == "ok":
            _time(found, stage, replication, call)
    else:
        found.status = "unavailable" if outcome.status == "data_unavailable" else "failed"
        starts = sorted({need.experiment for need in replication.experiment(first.experiment).needs.values()})
        after = f" (it starts from {', '.join(starts)})" if starts and outcome.status == "failed" else ""
        found.reason = " ".join(outcome.reason.split()) + after
        if " is out of memory: " in outcome.reason and stage.device == CPU:
            found.status = "refused"
            found.reason = f"its rehearsal alone needs more than the {stage.available_gb:.2g} GB that it may take"
    found.seconds = round(time.process_time() - started, 2)
    found.made = sorted(set(stub.made))
    process.release()
    return found


def _needed_larger(replication: Replication, call: Rehearsal) -> bool:
    """Whether others start from a call at another size, too."""
    return is_needed(replication, call) and rehearsed(replication).divisor(call.runs[0]) > 1


def is_needed(replication: Replication, call: Rehearsal) -> bool:
    """Whether other experiments start from that of the call."""
    needs = (need for config in replication.experiments.values() for need in config.needs.values())
    return any(need.experiment == call.runs[0].experiment for need in needs)


class Stub:
    """A call with shortened runs, at one size.

    Attributes:
        begun: what its tensors held until it was interrupted.
        whole: what they held until its end.
        checkpoints, made: as `Rehearsing` has them.
    """

    def __init__(self, stage: Stage, replication: Rehearsed, runs: Sequence[Run], *, again: bool = False) -> None:
        self.stage, self.replication = stage, replication
        self.runs = [replication.shortened(run) for run in runs]
        self.results = stage.results(replication.factor, again)
        self.checkpoints = 0
        self.made: list[str] = []
        self.begun = self.whole = Footprint(0.0, 0.0)
        self._interrupted = not again
        self._contexts: list[RehearsedContext] = []
        resources = replication.experiment(runs[0].experiment).resources_at(runs[0].scale)
        self._pretend = resources.gpus > 0 and stage.device.type == "cpu"
        self._device = GPU if self._pretend else stage.device

    def play(self) -> Outcome:
        """Begin, interrupt at the second checkpoint, resume, end; what became of it."""
        if lacking := self._lacking():
            return Outcome("blocked", lacking[0])
        with short_measurements(), self._memory() as memory:
            outcome = self._execute(memory, interrupt if self._interrupted else None)
            self.begun = self._footprint(memory)
            if outcome.status == "unfinished":
                outcome = self._execute(memory, None)
                if outcome.status not in COMPUTED:
                    outcome = Outcome(outcome.status, f"resumed from its checkpoint: {outcome.reason}")
            self.whole = self._footprint(memory)
        self.checkpoints = sum(context.checkpoints for context in self._contexts)
        self.made += [name for context in self._contexts for name in context.made]
        return outcome

    def records(self) -> list[bytes]:
        """What each run has recorded."""
        return [(self.results.folder(run) / "records.jsonl").read_bytes() for run in self.runs]

    def _lacking(self) -> list[str]:
        """What the runs start from and is not there; of a call without sizes there is one size alone."""
        lacking = provide(self.replication, self.results, self.runs, self.stage.results(self.replication.factor))
        return lacking and provide(self.replication, self.results, self.runs, self.stage.results(1))

    def _footprint(self, memory: LiveMemory) -> Footprint:
        lasting = max((context.lasting for context in self._contexts), default=0)
        return Footprint(lasting, memory.peak - lasting)

    def _execute(self, memory: LiveMemory, stop: Callable[[Clock], None] | None) -> Outcome:
        """The first outcome of the runs that is not well, else the first."""
        first, maker = self.runs[0], self._maker(memory, stop)
        conditions = Conditions(self.replication, self.results, self._device, context=maker)
        job = Job(self.replication.name, first.experiment, first.scale, tuple(self.runs))
        with patch.object(common.datasets, "files", files_or_made(self.stage.scratch / "made", self.made)):
            outcomes = list(execute_job(job, conditions).values())
        return next((outcome for outcome in outcomes if outcome.status not in COMPUTED), outcomes[0])

    def probe(self) -> Footprint:
        """What the tensors of a call hold until its second checkpoint; nothing of it is kept.

        Raises:
            UserError: what it starts from has not been rehearsed.
        """
        if lacking := self._lacking():
            raise UserError(lacking[0])
        workspace = Workspace(self.results, self.runs)
        workspace.clear()
        module = sys.modules[self.replication.module(self.runs[0].experiment)]
        files = files_or_made(self.stage.scratch / "made", self.made)
        made = patch.object(common.datasets, "files", files)
        with short_measurements(), self._memory() as memory, made:
            context = self._maker(memory, leave)(
                [(run, parameters_of(run, self.replication)) for run in self.runs],
                workspace,
                device=self._device,
                needed={run.name: self.replication.needed(run) for run in self.runs},
                clock=Clock(),
                report=lambda fraction, message: None,
            )
            with suppress(Enough):
                module.run(context.runs, context)
            context.close()
            found = self._footprint(memory)
        workspace.clear()
        return found

    def _memory(self) -> LiveMemory:
        return PretendedGpu() if self._pretend else LiveMemory(self.stage.device)

    def _maker(self, memory: LiveMemory, stop: Callable[[Clock], None] | None) -> Callable[..., RunContext]:
        def make(*arguments: Any, **options: Any) -> RehearsedContext:
            context = RehearsedContext(*arguments, **options)
            context.memory, context.stop = memory, stop
            self._contexts.append(context)
            return context

        return make


@contextmanager
def short_measurements() -> Iterator[None]:
    """Within: the toolkit's estimates end with their first draws, a trace with a few passes: as large, less exact."""
    with patch.object(Accuracy, "draws_wanted", lambda *known: 0), patch.object(traces, "MINIMUM_SPREAD", 2):
        yield


def _compared(stage: Stage, replication: Rehearsed, call: Rehearsal, before: Outcome) -> Outcome:
    """The outcome, or a failure where the same stub, uninterrupted, records other numbers."""
    stub, again = Stub(stage, replication, call.runs), Stub(stage, replication, call.runs, again=True)
    outcome = again.play()
    if outcome.status not in COMPUTED:
        return Outcome(outcome.status, f"computed again, uninterrupted: {outcome.reason}")
    if stub.records() != again.records():
        return Outcome("failed", "it records other numbers when it is interrupted and resumed than in one go")
    return before


def _count(found: Rehearsing, stage: Stage, replication: Replication, call: Rehearsal, stub: Stub) -> None:
    """Enter the memory of the real call, and whether it fits."""
    try:
        one, all_seeds = _counted(stage, replication, call, stub)
    except Exception as error:  # a probe of its memory may fail where the stub did not
        found.reason = f"its memory could not be counted: {told(error, stage.folders.root)}"
        return
    found.counted_gb = (round(one.total / 1e9, 3), round(all_seeds.total / 1e9, 3))
    found.fitting = {gb: at_once(one, all_seeds, call.seeds, SPARE * gb * 1e9) for gb in GPUS_GB}
    share = SPARE if stage.device.type == "cuda" else 1.0
    found.reason = shortage(one, all_seeds, call.seeds, share * stage.available_gb * 1e9)
    found.status = "refused" if found.reason else "ok"


def _counted(stage: Stage, replication: Replication, call: Rehearsal, stub: Stub) -> tuple[Footprint, Footprint]:
    """What tensors of the real call hold with one seed, and with all: carried on from one and two seeds and sizes."""
    small = rehearsed(replication)
    divisor, batch_divisor = small.divisor(call.runs[0]), small.batch_divisor(call.runs[0])
    ones, alls = [], []
    for factor in (1, 2) if max(divisor, batch_divisor) > 1 else (1,):
        at = rehearsed(replication, factor)
        many = stub.begun if factor == 1 else Stub(stage, at, call.runs).probe()
        one = Stub(stage, at, call.of_one_seed).probe() if call.rehearsed > 1 else many
        more = (call.seeds - 1) / (call.rehearsed - 1) if call.rehearsed > 1 else 0.0
        ones.append(one)
        alls.append(one.carried(many, more, more))
    real = (corner[0].carried(corner[-1], divisor - 1, batch_divisor - 1) for corner in (ones, alls))
    shares = 1.0, call.seeds / call.rehearsed
    one, all_seeds = (_with_later(each, stub, share * batch_divisor) for each, share in zip(real, shares, strict=True))
    return one, all_seeds


def _with_later(begun: Footprint, stub: Stub, times: float) -> Footprint:
    """With what comes after the second checkpoint: so many times what the stub held, or what a chunk adds to that."""
    lasting, later = begun.lasting + max(stub.whole.lasting - stub.begun.lasting, 0.0), stub.whole.passing
    return Footprint(lasting, max(begun.passing, min(times * later, later + IN_A_CHUNK * SAVED)))


def _time(found: Rehearsing, stage: Stage, replication: Replication, call: Rehearsal) -> None:
    """Enter the seconds of the real call by its first steps, and keep them as a trial that `replicate plan` reads."""
    first = call.runs[0]
    unshortened = Rehearsed(replication.root, replication.name, replication.sources, real_one=first.experiment)
    results = Results(stage.scratch / "timed")
    runs = whole(replication, call)
    lacking = provide(unshortened, results, runs, stage.results(1))
    if lacking:
        found.untimed = lacking[0]
        return
    conditions = Conditions(unshortened, results, stage.device)
    job = Job(replication.name, first.experiment, first.scale, tuple(runs))
    files = files_or_made(stage.scratch / "made", [])
    with patch.object(common.datasets, "files", files), patch.dict(os.environ):
        os.environ.pop("REPLICATIONS_CHECKPOINT_SECONDS", None)  # as many checkpoints as the real call writes
        trial = timed(conditions, job, stage.seconds)
    if "reason" in trial:
        found.untimed = " ".join(trial["reason"].split())
        return
    found.real_seconds = (trial["seconds"], trial["lower"], trial["upper"])
    path = trials_path(stage.folders.store, first.scale, replication.name)
    kept = {(entry.get("experiment"), entry.get("setting")): entry for entry in read_entries(path)}
    kept[(trial["experiment"], trial["setting"])] = {**trial, **stands_for(replication, call)}
    write_json(path, list(kept.values()))


def whole(replication: Replication, call: Rehearsal) -> list[Run]:
    """All runs of the real call."""
    first = call.runs[0]
    jobs = (job for job in replication.jobs(first.scale) if any(run.key == first.key for run in job.runs))
    return next(runs for job in jobs for runs in calls_of(replication, job) if runs[0].key == first.key)
