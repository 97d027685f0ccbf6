"""Grid expansion: the runs of an experiment at a scale, and the jobs that execute them."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.experiments.config import MOST_RUNS, Axis, ExperimentConfig, axis_points, axis_text


@dataclass(frozen=True)
class Run:
    """One point of the grid, seed included.

    Attributes:
        axes: value of each axis, or its label; in the grid's order.
        settings: the parameters that config.yaml gives at this point (defaults of the class not included).
    """

    paper: str
    experiment: str
    scale: str
    axes: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`axis=value,…`: the name of the run's folder."""
        return ",".join(f"{name}={axis_text(value)}" for name, value in self.axes.items()) or "single"

    @property
    def path(self) -> Path:
        """The run's folder below `results/`."""
        return Path(self.scale, self.paper, self.experiment, self.name)

    @property
    def key(self) -> str:
        """`experiment/name`: the run among those of its paper at its scale."""
        return f"{self.experiment}/{self.name}"

    def __str__(self) -> str:
        return f"{self.paper}/{self.key}"


SHORT = 0.5
"""Core minutes of an experiment that shares its process with others: ten times what the start of a process costs."""


@dataclass(frozen=True)
class Job:
    """Runs that one process executes: of one experiment, of `all`, of the `small` ones. Never part of a run's path."""

    paper: str
    experiment: str
    scale: str
    runs: tuple[Run, ...]

    @property
    def id(self) -> str:
        """12 hexadecimal digits that stand for its runs, by their names."""
        names = sorted(run.key for run in self.runs)
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]

    @property
    def marker(self) -> Path:
        """Where the job's outcome lies below `results/`."""
        return Path(".jobs", self.scale, self.paper, self.experiment, f"{self.id}.json")


def expand(paper: str, experiment: str, config: ExperimentConfig, scale: str) -> list[Run]:
    """All runs of an experiment at a scale, in the order of the grid; none below its `run_from`.

    Raises:
        UserError: two axes set one parameter, zipped axes differ in length, `exclude` names no axis, or there are more
            than `MOST_RUNS`.
    """
    if not config.runs_at(scale):
        return []
    settings = config.settings(scale)
    where = f"{paper}/{experiment} at scale {scale}"
    base = {**config.base, **settings.parameters}
    grid = {**config.grid, **settings.grid}
    zipped = config.zip if settings.zip is None else settings.zip
    excluded = config.exclude if settings.exclude is None else settings.exclude
    for entry in excluded:
        for name in entry:
            if name not in grid:
                raise UserError(f"{where}: exclude names {name!r}, which is no axis of the grid ({', '.join(grid)}).")
    runs = []
    for point in _points(grid, zipped, where):
        axes = {name: value for name, (value, _) in point.items()}
        if any(_matches(axes, entry) for entry in excluded):
            continue
        given = dict(base)
        owner: dict[str, str] = {}
        for name, (_, overrides) in point.items():
            for parameter, value in overrides.items():
                if parameter in owner:
                    raise UserError(f"{where}: the axes {owner[parameter]!r} and {name!r} both set {parameter!r}.")
                owner[parameter] = name
                given[parameter] = value
        runs.append(Run(paper, experiment, scale, axes, given))
    return runs


def _points(
    grid: Mapping[str, Axis], zipped: list[list[str]], where: str
) -> Iterator[dict[str, tuple[Any, dict[str, Any]]]]:
    """Every point of the grid: axis to (value, overrides); zipped axes move together."""
    partner = {name: group[0] for group in zipped for name in group[1:]}
    columns: list[list[dict[str, tuple[Any, dict[str, Any]]]]] = []
    for name in grid:
        if name in partner:
            continue
        group = next((group for group in zipped if group[0] == name), [name])
        lists = [axis_points(member, grid[member]) for member in group]
        if len({len(points) for points in lists}) > 1:
            lengths = ", ".join(f"{member} has {len(points)}" for member, points in zip(group, lists, strict=True))
            raise UserError(f"{where}: zipped axes must be of one length, but {lengths}.")
        columns.append([dict(zip(group, values, strict=True)) for values in zip(*lists, strict=True)])
    count = math.prod(len(column) for column in columns)
    if count > MOST_RUNS:
        raise UserError(f"{where}: the grid has {count:,} points; an experiment may have {MOST_RUNS:,} runs at most.")
    for combination in itertools.product(*columns):
        merged = {name: point for part in combination for name, point in part.items()}
        yield {name: merged[name] for name in grid}


def _matches(axes: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    return all(axes[name] in (value if isinstance(value, list) else [value]) for name, value in entry.items())


def chunks(runs: Sequence[Run], size: Mapping[str, int]) -> list[list[Run]]:
    """Runs grouped so that a group spans at most `size[axis]` values of each named axis and one of any other."""
    order: dict[str, dict[str, int]] = {}
    for run in runs:
        for name, value in run.axes.items():
            order.setdefault(name, {}).setdefault(axis_text(value), len(order[name]))
    groups: dict[tuple[int, ...], list[Run]] = {}
    for run in runs:
        key = tuple(order[name][axis_text(value)] // size.get(name, 1) for name, value in run.axes.items())
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def together(runs: Sequence[Run], config: ExperimentConfig) -> list[list[Run]]:
    """The runs as the calls of `run()` take them: one call spans the axes that config.yaml names `together`."""
    return chunks(runs, dict.fromkeys(config.together, len(runs)))


def jobs(paper: str, experiments: Mapping[str, ExperimentConfig], scale: str, order: Sequence[str]) -> list[Job]:
    """The jobs of a paper at a scale.

    At smoke scale one job takes the whole paper (in `order`, in which needs come first), elsewhere `small` takes what
    is short: the start of a process costs seconds. Of the others `per_job` of the experiment's resources tells, and
    without it one job takes the whole experiment.
    """
    runs = {name: expand(paper, name, experiments[name], scale) for name in order}
    if scale == "smoke":
        return [_joined(paper, "all", scale, runs.values())]
    short = _short(experiments, scale, [name for name in order if runs[name]])
    result = [_joined(paper, "small", scale, [runs[name] for name in short])] if len(short) > 1 else []
    for name in order:
        if len(short) > 1 and name in short:
            continue
        per_job = experiments[name].resources_at(scale).per_job
        parts = [runs[name]] if per_job is None else chunks(runs[name], per_job)
        result += [Job(paper, name, scale, tuple(part)) for part in parts if part]
    return result


def _joined(paper: str, name: str, scale: str, runs: Iterable[Sequence[Run]]) -> Job:
    return Job(paper, name, scale, tuple(itertools.chain.from_iterable(runs)))


def _short(experiments: Mapping[str, ExperimentConfig], scale: str, order: Sequence[str]) -> list[str]:
    """The experiments of at most `SHORT` stated core minutes that need none but such: no job waits for its own runs."""
    short: list[str] = []
    for name in order:
        resources = experiments[name].resources_at(scale)
        brief = resources.minutes is not None and resources.minutes <= SHORT
        whole = resources.per_job is None and not resources.gpus
        if brief and whole and all(need.experiment in short for need in experiments[name].needs.values()):
            short.append(name)
    return short
