"""The operations of a call of `run()`: its first progress, with its real parameters, under a counter of operations."""

import importlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import torch

import common.datasets
from common.errors import UserError, told
from common.experiments import process
from common.experiments.context import Clock
from common.experiments.execution import parameters_of
from common.experiments.grid import Run
from common.experiments.operations import CountedOperations
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.experiments.workspace import Workspace
from common.files import read_entries, write_json
from common.workflow.discovery import make_importable
from common.workflow.extrapolation import PARTS, parted
from common.workflow.made_data import files_or_made
from common.workflow.rehearsed import SEEDS, Rehearsal, Rehearsed, provide, rehearsed_gb, stands_for
from common.workflow.rehearsed_call import Stage, whole
from common.workflow.rehearsed_context import Enough, RehearsedContext
from common.workflow.state import Folders
from common.workflow.timings import counted_code, counts_path, kept_counts_path, parameters_digest, setting

REAL_SECONDS = 60.0
"""Processor time in which a call that could be smaller is to tell progress twice at its real size."""
DIGITS = 12
"""Of a fraction, so that two calls know the same one."""
_Memory = dict[tuple[str, str], tuple[list[float], str | None]]
"""By experiment and setting: GB that were rehearsed with one seed and with all, and the code that was."""
MOST = 10
"""A call that tells progress so rarely that its parts are not seen in time goes on for so many times as long."""


class CountedContext(RehearsedContext):
    """Keeps at every report of progress what has been counted, and leaves the call when it has gone on long enough.

    Attributes:
        marks: fraction of the call that was done, and the amounts counted until then.
        ended: whether the call has come to its end, which may lie behind its last report.
        reach: a fraction before which it is not left.
    """

    counted: CountedOperations
    seconds: float
    reach: float

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.marks: list[tuple[float, dict[str, float]]] = []
        self.ended = False
        self._since = 0.0

    def checkpoint(self, state: Any) -> None:
        """Nothing is written: a real call does it twice a minute."""

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Note what has been counted."""
        fraction, now = round(done / total, DIGITS) if total else 1.0, time.process_time()
        if self.marks and fraction <= self.marks[-1][0]:
            return
        self._since = self._since if self.marks else now
        self.marks.append((fraction, dict(self.counted.amounts)))
        enough = self.seconds if len(self.marks) > 2 * PARTS else MOST * self.seconds
        if now - self._since > enough and len(self.marks) > 1 and self.reach <= fraction < 1.0:
            raise Enough


class PatientCounter(CountedOperations):
    """Counts until a processor time, and leaves the call at the first operation after it."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        super().__init__(device)
        self._until = time.process_time() + seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation, counted."""
        if time.process_time() > self._until:
            raise Enough
        return super().__torch_dispatch__(func, types, args, kwargs)


@dataclass(frozen=True)
class Observed:
    """What was counted of a call with some of its seeds: at fractions of the call, and the most that it held."""

    marks: dict[float, dict[str, float]]
    peak: float

    def carried(self, more: "Observed", steps: float) -> "Observed":
        """From here to `more` is one step; so many of them, at the fractions that both know."""
        marks = {at: _carried(mine, theirs, steps, steps) for at, mine, theirs in self._both(more)}
        return Observed(marks, self._carried_peak(more, steps))

    def times(self, factor: float) -> "Observed":
        """So many times the operations; the memory stays."""
        return Observed(
            {at: {name: factor * value for name, value in one.items()} for at, one in self.marks.items()}, self.peak
        )

    def of_larger_batches(self, more: "Observed", grown: float, times: float) -> "Observed":
        """With batches so many `times` as large, where those of `more` have `grown` to so many times.

        What becomes less with them is done once a step, of which there are so many times fewer; what becomes more is
        done for every example of a step.
        """
        fewer, larger = (1 - 1 / times) / (1 - 1 / grown), (times - 1) / (grown - 1)
        marks = {at: _carried(mine, theirs, fewer, larger) for at, mine, theirs in self._both(more)}
        return Observed(marks, self._carried_peak(more, larger))

    def _carried_peak(self, more: "Observed", steps: float) -> float:
        """The peak after so many steps from here to `more`, at least what it is here."""
        return self.peak + steps * max(more.peak - self.peak, 0.0)

    def _both(self, other: "Observed") -> list[tuple[float, dict[str, float], dict[str, float]]]:
        """The fractions here that lie between those of the other, and what was counted here and there."""
        return [(at, mine, there) for at, mine in self.marks.items() if (there := other.by(at)) is not None]

    def by(self, fraction: float) -> dict[str, float] | None:
        """What was counted by a fraction: between two marks in proportion, None before the first and after the last."""
        before = [at for at in self.marks if at <= fraction]
        after = [at for at in self.marks if at >= fraction]
        if not before or not after:
            return None
        low, high = max(before), min(after)
        share = (fraction - low) / (high - low) if high > low else 0.0
        less, more = self.marks[low], self.marks[high]
        return {name: (1 - share) * less.get(name, 0) + share * more.get(name, 0) for name in {**less, **more}}

    @property
    def lifted(self) -> "Observed":
        """With amounts that were carried below zero lifted alike at all marks, so that what is between them stays.

        What is done once before the first mark differs between two calls in what a process caches; carried on, that
        may outweigh all else. It is left as it is where a call was counted to its end, or an amount falls.
        """
        names = {name for amounts in self.marks.values() for name in amounts}
        courses = {name: [self.marks[at].get(name, 0) for at in sorted(self.marks)] for name in names}
        if 1.0 in self.marks or any(course != sorted(course) for course in courses.values()):
            return self
        up = {name: max(-course[0], 0) for name, course in courses.items()}
        return Observed(
            {at: {name: amounts.get(name, 0) + up[name] for name in names} for at, amounts in self.marks.items()},
            self.peak,
        )

    @property
    def suffices(self) -> bool:
        """Whether the whole call follows from it."""
        return (1.0 in self.marks or len(self.marks) > 1) and all(
            amount >= 0 for amounts in self.marks.values() for amount in amounts.values()
        )


def _carried(here: Mapping[str, float], there: Mapping[str, float], down: float, up: float) -> dict[str, float]:
    """Each amount carried on from here to there, by so many steps where it falls and where it rises."""
    steps = {name: there.get(name, 0) - here.get(name, 0) for name in {**here, **there}}
    found = {name: here.get(name, 0) + step * (down if step < 0 else up) for name, step in steps.items()}
    for double in ("", "_double"):  # torch multiplies one matrix in one way and several in another
        one, several = f"products{double}", f"batched_products{double}"
        if min(found.get(one, 0), found.get(several, 0)) < 0:
            found |= {one: 0.0, several: found.get(one, 0) + found.get(several, 0)}
    return found


@dataclass(frozen=True)
class Counter:
    """Counts calls of a replication.

    Attributes:
        real: the replication, of which the counted experiment is not shortened.
        results: where what a call starts from lies.
        reach: a fraction that a call is counted to at least.
    """

    stage: Stage
    real: Rehearsed
    results: Results
    reach: float = 0.0

    def of_call(self, call: Rehearsal, runs: Sequence[Run], seconds: float) -> Observed:
        """A call with these runs, if its progress allows it carried on from its first seeds (`observed`)."""
        return self._of_few(call, seconds) or self.observed(runs, seconds)

    def _of_few(self, call: Rehearsal, seconds: float) -> Observed | None:
        """None where a call has no more than its first seeds, or where its progress does not say it."""
        if call.seeds <= SEEDS + 1:
            return None
        one, few = (self.observed(runs, seconds) for runs in (call.of_one_seed, call.runs))
        found = one.carried(few, (call.seeds - 1) / (call.rehearsed - 1))
        return found if found.suffices else None

    def observed(self, runs: Sequence[Run], seconds: float) -> Observed:
        """What is counted of a call with these runs.

        Raises:
            UserError: it has not told progress twice in so many seconds of processor time.
        """
        workspace, device = Workspace(self.results, runs), self.stage.device
        workspace.clear()
        module = importlib.import_module(self.real.module(runs[0].experiment))
        with (
            PatientCounter(device, seconds) as counted,
            patch.object(common.datasets, "files", files_or_made(self.stage.scratch / "made", [])),
        ):
            context = CountedContext(
                [(run, parameters_of(run, self.real)) for run in runs],
                workspace,
                device=device,
                needed={run.name: self.real.needed(run) for run in runs},
                clock=Clock(),
                report=lambda fraction, message: None,
            )
            context.counted, context.seconds, context.reach = counted, self.stage.seconds, self.reach
            try:
                with suppress(Enough):
                    module.run(context.runs, context)
                    context.ended = True
                    context.marks.append((1.0, dict(counted.amounts)))
            finally:
                context.close()
                workspace.clear()
                process.release()
        marks = {at: amounts for at, amounts in context.marks if at < 1.0 or context.ended}
        found = Observed(marks, counted.peak)
        if not found.suffices:
            raise UserError(f"it did not tell progress twice in {seconds:g} s of a core")
        return found


def count(stage: Stage, replication: Replication, call: Rehearsal) -> dict[str, Any]:
    """Count a call for `stage.seconds` after its first progress: what stands in the file of counts, or a `reason`.

    `marks` are what had been counted when a fraction of the call was done, the last one, 1, of a call that ended. Of a
    call with more than `SEEDS + 1` seeds the first and the first two are counted, and carried on to all. A call that
    fails, because what it starts from was shortened or for want of memory, or whose steps take too long
    (`REAL_SECONDS`), is counted with its sizes divided, and with twice those, and carried on to the real ones. So are
    batches that a rehearsal divides.
    """
    first = call.runs[0]
    real = Rehearsed(replication.root, replication.name, replication.sources, real_one=first.experiment)
    runs, counter = whole(replication, call), Counter(stage, real, Results(stage.scratch / "counted"))
    if lacking := provide(real, counter.results, runs, stage.results(2)):
        return {"reason": lacking[0]}

    def of(seconds: float, size: int, batches: int, reach: float = 0.0) -> Observed:
        def light(run: Run) -> Run:
            run = real.changed(run, "sizes", factor=size) if size else run  # first: by its real batches
            return real.changed(run, "batches", factor=batches)

        lighter = replace(call, runs=tuple(map(light, call.runs)))
        return replace(counter, reach=reach).of_call(lighter, list(map(light, runs)), seconds)

    def of_real_batches(seconds: float, size: int = 0) -> Observed:
        times, half = (real.times_as_large(first, "batches", factor) for factor in (1, 2))
        if times == 1:
            return of(seconds, size, 1)
        larger = of(seconds, size, 2)  # whose first reports the smaller ones, which come more often, have to reach
        found = of(seconds, size, 1, sorted(larger.marks)[:2][-1]).of_larger_batches(larger, times / half, times)
        if not found.suffices:
            raise UserError("what it takes with two sizes of batches cannot be carried on to the real one")
        return found

    times, half = (real.times_as_large(first, "sizes", factor) for factor in (1, 2))
    try:
        found = of_real_batches(REAL_SECONDS if times > 1 else math.inf)
    except Exception as error:
        if times == 1:
            return {"reason": told(error, stage.folders.root)}
        try:
            small, twice = (of_real_batches(math.inf, factor) for factor in (1, 2))
        except Exception as other:
            both = (told(error, stage.folders.root), told(other, stage.folders.root))
            return {"reason": "; with small sizes: ".join(both)}
        carried = small.carried(twice, (times - 1) / (times / half - 1)).lifted
        found = carried if carried.suffices else small.times(times)
    marks = sorted(found.marks.items())
    kept = marks[-1:] if marks[-1][0] == 1.0 else parted(marks)
    return {
        "experiment": first.experiment,
        **stands_for(replication, call),
        "runs": len(runs),
        "marks": [[fraction, amounts] for fraction, amounts in kept],
        "peak_gb": found.peak / 1e9,
        "code": counted_code(replication, first.experiment),
    }


def keep_count(folders: Folders, scale: str, paper: str, found: Mapping[str, Any]) -> None:
    """Keep what was counted of a call, in the place of what was counted of the same settings before."""
    path = counts_path(folders.store, scale, paper)
    write_json(path, _with(read_entries(path), found))


def record_counts(replication: Replication, scale: str, folders: Folders) -> str:
    """Write what was counted of present code by the present counter into reports/counts/; leave out what no run has.

    What a former rehearsal found of a setting's memory stays until another one finds something.

    Returns:
        A line that says how many settings stand there.
    """
    make_importable(replication.root)
    path = kept_counts_path(replication, scale)
    runs = [run for name in replication.experiments for run in replication.runs(name, scale)]
    now = {(run.experiment, setting(run), parameters_digest(run)) for run in runs}

    def known(entry: Mapping[str, Any]) -> set[tuple[str, str, str]]:
        return now & {(entry["experiment"], *pair) for pair in entry.get("parameters", {}).items()}

    entries: list[Mapping[str, Any]] = list(filter(known, read_entries(path)))
    memory: _Memory = {
        (entry["experiment"], one): (entry["rehearsed_gb"], entry.get("rehearsed_code"))
        for entry in entries
        if "rehearsed_gb" in entry
        for one in entry["settings"]
    }
    for found in filter(known, read_entries(counts_path(folders.store, scale, replication.name))):
        if found["code"] == counted_code(replication, found["experiment"]):
            entries = _with(entries, found)
    memory |= {
        (name, one): (list(gb), replication.code_digest(name, "run"))
        for name in replication.experiments
        for call, gb in rehearsed_gb(replication, name, scale, folders.store)
        for one in call.settings
        if gb is not None
    }
    entries = [{**entry, **_most(memory, entry)} for entry in entries]
    write_json(path, entries)
    settings = len(set().union(*map(known, entries)))
    return f"{replication.name}: {settings} of {len(now)} settings in {path.relative_to(replication.root)}."


def _most(memory: _Memory, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What a rehearsal adds to counted operations; nothing where none was made."""
    known = [memory[key] for name in entry["settings"] if (key := (entry["experiment"], name)) in memory]
    if not known:
        return {}
    gb, code = max(known, key=lambda one: one[0][1])
    return {"rehearsed_gb": gb, **({"rehearsed_code": code} if code else {})}


def _with(entries: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries, `found` in the place of those of the same settings."""
    mine = {(found["experiment"], name) for name in found["settings"]}
    before = [
        entry for entry in entries if not mine.intersection((entry["experiment"], name) for name in entry["settings"])
    ]
    return [*before, found]
