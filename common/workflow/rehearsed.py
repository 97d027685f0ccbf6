"""A replication as it is rehearsed: every call with its real parameters but for lengths and, counted out, sizes."""

import importlib
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pydantic

from common.experiments.execution import parameters_of
from common.experiments.grid import Job, Run
from common.experiments.identity import Identities
from common.experiments.outcomes import Results, RunRecord
from common.experiments.parameters import ExperimentParameters
from common.experiments.replication import Replication
from common.files import read_entries
from common.workflow.timings import parameters_digest, rehearsals_path, setting
from common.workflow.trial import calls_of

SEEDS = 2
"""Seeds of a call that are rehearsed: an interval needs two, and from one to two tells what each more would take."""
REPEATED = ("seed", "fold")
"""Axes along which runs do the same work with other numbers."""
Group = Literal["lengths", "sizes", "batches"]
"""What `rehearsal` in config.yaml changes."""
LEAST = 2
"""A size is not divided below so many, or what its parameter allows; then none of its run is."""


@dataclass(frozen=True)
class Rehearsed(Replication):
    """A replication whose runs are as short and small as `rehearsal` in config.yaml says; all else is as it is.

    Attributes:
        factor: sizes are so many times as large as there.
        real_one: an experiment that is not shortened.
    """

    factor: int = 1
    real_one: str = ""

    def runs(self, experiment: str, scale: str) -> list[Run]:
        """All runs of an experiment at a scale, shortened."""
        key = (experiment, scale)
        if key not in self._runs:
            self._runs[key] = [self.shortened(run) for run in self.real.runs(experiment, scale)]
        return self._runs[key]

    def jobs(self, scale: str) -> list[Job]:
        """The jobs, needed experiments first, of shortened runs."""
        return [replace(job, runs=tuple(map(self.shortened, job.runs))) for job in self.real.jobs(scale)]

    @cached_property
    def real(self) -> Replication:
        """The replication as it is."""
        return Replication(self.root, self.name, self.sources)

    def shortened(self, run: Run) -> Run:
        """A run with other lengths, sizes and batches."""
        return run if run.experiment == self.real_one else self.changed(run, "lengths", "sizes", "batches")

    def changed(self, run: Run, *groups: Group, factor: int = 0) -> Run:
        """A run with what some groups of its `rehearsal` change; what is trained on is whole batches of either size.

        Args:
            factor: sizes and batches are so many times as large as there; `self.factor` if 0.
        """
        rehearsal, settings = self.experiment(run.experiment).rehearsal, dict(run.settings)
        divisors = {"sizes": rehearsal.sizes if self.divided(run) > 1 else {}, "batches": rehearsal.batches}
        twice = [_divided(self._value(run, name), by, 2) or 1 for name, by in rehearsal.batches.items()]
        for group in groups:
            for name, by in divisors.get(group, {}).items():
                size = _divided(self._value(run, name), by, factor or self.factor)
                drawn = group == "sizes" and name.startswith("train")  # batches are drawn from these
                settings[name] = self._whole(run, name, size, max(twice, default=1)) if drawn else size
        if "lengths" in groups:
            settings |= {name: _shorter(self._value(run, name), value) for name, value in rehearsal.lengths.items()}
        return replace(run, settings=settings)

    def times_as_large(self, run: Run, group: Literal["sizes", "batches"], factor: int = 1) -> float:
        """How many times as large the first of its sizes or batches is as a rehearsal of a factor has it."""
        names = list(getattr(self.experiment(run.experiment).rehearsal, group))
        small = self.changed(run, group, factor=factor)
        return float(self._value(run, names[0]) / self._value(small, names[0])) if names else 1.0

    def divided(self, run: Run) -> int:
        """By how much the sizes of a run are divided: all of them, or none where one would be too small."""
        sizes = self.experiment(run.experiment).rehearsal.sizes
        divided = {name: _divided(self._value(run, name), by, 1) for name, by in sizes.items()}
        large = all(size >= LEAST for size in divided.values()) and self._allowed(run, divided)
        return max(sizes.values(), default=1) if large else 1

    def _allowed(self, run: Run, changes: Mapping[str, Any]) -> bool:
        """Whether the parameters of a run may be these."""
        try:
            self._parameters(run)(**{**run.settings, **changes})
        except pydantic.ValidationError:
            return False
        return True

    def _whole(self, run: Run, name: str, size: int, batch: int) -> int:
        """A size without what is left of its last batch, where that is allowed: else with all of it.

        What is done once a batch would grow by leaps with sizes that are no whole batches.
        """
        whole = size - size % batch
        if whole and self._allowed(run, {name: whole}):
            return whole
        return min(whole + batch, int(self._value(run, name))) if size % batch else size

    def divisor(self, run: Run) -> int:
        """By how much the sizes of a run or of what it starts from are divided."""
        return max([self.divided(run), *map(self.divisor, self.real.needed(run).values())])

    def batch_divisor(self, run: Run) -> float:
        """By how much the batches of a run are divided."""
        return self.times_as_large(run, "batches")

    def _value(self, run: Run, name: str) -> Any:
        """A parameter of a run, where config.yaml sets none the default."""
        return run.settings.get(name, self._parameters(run).model_fields[name].default)

    def _parameters(self, run: Run) -> type[ExperimentParameters]:
        kind: type[ExperimentParameters] = importlib.import_module(self.module(run.experiment)).Parameters
        return kind


def _divided(size: int | None, by: int, factor: int) -> Any:
    """A size that the rehearsal divides; None, which stands for all, stays."""
    return None if size is None else min(factor * max(size // by, 1), size)


def _shorter(real: Any, given: Any) -> Any:
    """The shorter of two lengths; what is no number is taken as it is given, and 0 stands for all."""
    numbers = isinstance(real, int | float) and isinstance(given, int | float) and real
    return min(real, given) if numbers else given


@dataclass(frozen=True)
class Rehearsal:
    """A call that is rehearsed.

    Attributes:
        runs: of the first seeds, as config.yaml has them.
        seeds: that the real call has.
        settings: of all calls of its kind.
    """

    runs: tuple[Run, ...]
    seeds: int
    settings: tuple[str, ...] = ()

    @property
    def rehearsed(self) -> int:
        """Seeds that the rehearsal has."""
        return len({run.axes.get("seed") for run in self.runs})

    @property
    def of_one_seed(self) -> tuple[Run, ...]:
        """Those of the first seed."""
        return tuple(run for run in self.runs if run.axes.get("seed") == self.runs[0].axes.get("seed"))

    @property
    def name(self) -> str:
        """The setting, without the axes along which the work repeats."""
        axes = [f"{name}={value}" for name, value in self.runs[0].axes.items() if name not in REPEATED]
        return ",".join(axes) or "single"


def rehearsals(replication: Replication, experiment: str, scale: str) -> list[Rehearsal]:
    """One call of `run()` for each kind of work in an experiment, as its jobs make it, with its first seeds.

    Calls are of one kind if their parameters differ in a seed, a fold, an axis that config.yaml calls alike, or the
    value of a number with decimals that is not zero: a learning rate is no other work.
    """
    found: dict[Any, Rehearsal] = {}
    alike = replication.experiment(experiment).rehearsal.alike
    calls = (runs for job in replication.jobs(scale) for runs in calls_of(replication, job))
    for runs in calls:
        if runs[0].experiment != experiment:
            continue
        kind = frozenset(_kind(run, replication, alike) for run in runs)
        seeds = list(dict.fromkeys(run.axes.get("seed") for run in runs))
        first = tuple(run for run in runs if run.axes.get("seed") in seeds[:SEEDS])
        one = found.setdefault(kind, Rehearsal(first, len(seeds)))
        found[kind] = replace(one, settings=tuple(dict.fromkeys([*one.settings, *map(setting, runs)])))
    return list(found.values())


def first_calls(replication: Replication, experiments: Collection[str], scale: str) -> list[Rehearsal]:
    """The first kind of call of each experiment, and those that it starts from, needed ones first."""
    calls = {name: rehearsals(replication, name, scale) for name in replication.experiments}
    found: list[Rehearsal] = []

    def take(call: Rehearsal) -> None:
        if call in found:
            return
        for needed in (needed for run in call.runs for needed in replication.needed(run).values()):
            take(next(other for other in calls[needed.experiment] if setting(needed) in other.settings))
        found.append(call)

    for name in calls:
        if name in experiments and calls[name]:
            take(calls[name][0])
    return found


def stands_for(replication: Replication, call: Rehearsal) -> dict[str, Any]:
    """`settings` of which what was found of a call tells, and the digest of their `parameters`."""
    first = call.runs[0]
    digests = {setting(run): parameters_digest(run) for run in replication.runs(first.experiment, first.scale)}
    return {"settings": list(call.settings), "parameters": {name: digests[name] for name in call.settings}}


def rehearsed_gb(
    replication: Replication, experiment: str, scale: str, results: Results
) -> list[tuple[Rehearsal, tuple[float, float] | None]]:
    """Each kind of call, and what its tensors hold with one seed and with all, as its present code was rehearsed.

    None stands where it was not.
    """
    of = ("paper", "experiment", "setting", "code")
    lines = read_entries(rehearsals_path(results, scale))
    told = {tuple(map(line.get, of)): tuple(line["counted_gb"]) for line in lines if line.get("counted_gb")}
    code = replication.code_digest(experiment, "run")
    calls = rehearsals(replication, experiment, scale)
    return [(call, told.get((replication.name, experiment, call.name, code))) for call in calls]


def _kind(run: Run, replication: Replication, alike: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    parameters = parameters_of(run, replication).model_dump()
    return tuple((name, _work(value)) for name, value in parameters.items() if name not in (*REPEATED, *alike))


def _work(value: Any) -> Any:
    """A parameter as far as it changes the work."""
    if isinstance(value, float):
        return "some" if value else "none"
    return tuple(map(_work, value)) if isinstance(value, list | tuple) else value


def provide(replication: Replication, results: Results, runs: Sequence[Run], source: Results) -> list[str]:
    """Give runs what they start from: where a needed run was not rehearsed, the artifacts of one that did its work.

    Args:
        source: where rehearsed runs lie.

    Returns:
        The needed runs that have none, as sentences.
    """
    identities, lacking = Identities(replication, results), []
    for run in runs:
        for name, needed in replication.needed(run).items():
            if identities.current(needed):
                continue
            twin = _twin(needed, replication, source)
            if twin is None:
                lacking.append(f"it starts from {needed} ({name}), whose rehearsal left nothing")
                continue
            folder = results.folder(needed)
            record = source.stored(twin)
            if source.folder(twin) != folder:
                shutil.copytree(source.folder(twin), folder, dirs_exist_ok=True)
            if record is not None:
                stated: Mapping[str, Any] = {"inputs": identities.inputs(needed), "used": identities.used(needed)}
                results.store(folder, replace(record, **stated))
    return lacking


def _twin(needed: Run, replication: Replication, results: Results) -> Run | None:
    """A rehearsed run with artifacts that did the work of `needed`, at best at the same setting."""
    alike = replication.experiment(needed.experiment).rehearsal.alike
    kind, wanted = _kind(needed, replication, alike), _without_repeated(needed)
    found = None
    for run in replication.runs(needed.experiment, needed.scale):
        stored: RunRecord | None = results.stored(run)
        if stored is not None and stored.artifacts and _kind(run, replication, alike) == kind:
            if _without_repeated(run) == wanted:
                return run
            found = found or run
    return found


def _without_repeated(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.axes.items() if name not in REPEATED}


def rehearsed(replication: Replication, factor: int = 1) -> Rehearsed:
    """A replication as it is rehearsed."""
    return Rehearsed(replication.root, replication.name, replication.sources, factor=factor)
