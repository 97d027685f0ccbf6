"""A replication directory: its paper, experiments, claims file and notebook; read without importing anything."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from common.errors import UserError, suggestion
from common.experiments.config import ExperimentConfig, ReplicationConfig
from common.experiments.digests import code_digest
from common.experiments.grid import Job, Run, expand, jobs
from common.experiments.paper import Paper
from common.experiments.scales import SCALES
from common.experiments.syntax import ParameterField, Sources, parameter_fields
from common.kept import kept
from common.sources import line_in, load_typed

ENTRIES = ("run", "metrics", "figures")
"""What is called of an experiment: `run` in its own file, `metrics` and `figures` in that of its analysis."""


@dataclass(frozen=True)
class Replication:
    """One directory under `replications/`."""

    root: Path
    name: str
    sources: Sources
    _runs: dict[tuple[str, str], list[Run]] = field(default_factory=dict, repr=False, compare=False)
    _fields: dict[str, dict[str, ParameterField]] = field(default_factory=dict, repr=False, compare=False)
    _by_axes: dict[tuple[str, str, tuple[str, ...]], dict[tuple[Any, ...], list[Run]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def folder(self) -> Path:
        """The directory itself."""
        return self.root / "replications" / self.name

    @cached_property
    def paper(self) -> Paper:
        """The content of paper.yaml."""
        paper = load_typed(self.folder / "paper.yaml", Paper)
        for entry in paper.coverage:
            if entry.experiment is not None:
                self.experiment(entry.experiment, f"{self.folder / 'paper.yaml'}: coverage of {entry.item}")
        return paper

    @cached_property
    def experiments(self) -> Mapping[str, ExperimentConfig]:
        """The experiments of config.yaml, checked against the files, needed ones first."""
        path = self.folder / "config.yaml"
        config = load_typed(path, ReplicationConfig).root
        for name in config:
            if not (self.folder / f"{name}.py").is_file():
                raise UserError(f"{path}: {name}: there is no {self.folder / f'{name}.py'}; an experiment is one file.")
        fields = self._declared_fields(list(config))
        for name, experiment in config.items():
            self._check_parameters(path, name, experiment, fields[name])
        self._fields.update(fields)
        return {name: config[name] for name in _needed_first(config, path)}

    def _declared_fields(self, names: list[str]) -> dict[str, dict[str, ParameterField]]:
        """Fields of each experiment's `Parameters`."""
        found = kept(
            self.root,
            f"{self.name}-parameters",
            f"{self.sources.fingerprint} {names}",
            lambda: {
                name: [asdict(one) for one in parameter_fields(self.sources, self.module(name)).values()]
                for name in names
            },
        )
        return {name: {one["name"]: ParameterField(**one) for one in fields} for name, fields in found.items()}

    def experiment(self, name: str, where: str = "") -> ExperimentConfig:
        """The experiment `name`; raises `UserError` with the nearest names when there is none."""
        if name not in self.experiments:
            prefix = f"{where}: " if where else ""
            raise UserError(f"{prefix}{self.name} has no experiment {name!r}{suggestion(name, self.experiments)}")
        return self.experiments[name]

    def module(self, experiment: str) -> str:
        """Import name of an experiment's file."""
        return f"replications.{self.name}.{experiment}"

    def analysis_module(self, experiment: str) -> str:
        """Import name of the file with an experiment's metrics and figures; one that has neither has no such file."""
        return f"replications.{self.name}.analysis.{experiment}"

    def analysis_file(self, experiment: str) -> Path:
        """The file of `analysis_module`, which may not exist."""
        return self.folder / "analysis" / f"{experiment}.py"

    def parameter_fields(self, experiment: str) -> dict[str, ParameterField]:
        """Fields of the experiment's `Parameters`."""
        self.experiment(experiment)
        return self._fields[experiment]

    def line_of_parameter(self, run: Run, parameter: str) -> str:
        """Where config.yaml sets a parameter of a run, as `file:line`."""
        path = self.folder / "config.yaml"
        config = self.experiments[run.experiment]
        place = _place_of_parameter(run, config, parameter)
        return f"{path}:{line_in(path, place)}" if place else str(path)

    def _check_parameters(
        self, path: Path, name: str, experiment: ExperimentConfig, fields: Mapping[str, ParameterField]
    ) -> None:
        for location, parameter in _named_parameters(name, experiment):
            if parameter not in fields:
                line = line_in(path, location)
                raise UserError(
                    f"{path}:{line}: class Parameters in {name}.py has no parameter {parameter!r}"
                    f"{suggestion(parameter, fields)}"
                )

    def runs(self, experiment: str, scale: str) -> list[Run]:
        """All runs of an experiment at a scale."""
        key = (experiment, check_scale(scale))
        if key not in self._runs:
            self._runs[key] = expand(self.name, experiment, self.experiment(experiment), scale)
        return self._runs[key]

    def jobs(self, scale: str) -> list[Job]:
        """The jobs of this replication at a scale, needed experiments first."""
        return jobs(self.name, self.experiments, check_scale(scale), list(self.experiments))

    def code_digest(self, experiment: str, entry: str) -> str:
        """Digest of what `run`, `metrics` or `figures` of an experiment uses."""
        known = self._code_digests.get(f"{experiment}.{entry}")
        return self._code_digest(experiment, entry) if known is None else known

    def _code_digest(self, experiment: str, entry: str) -> str:
        module = self.module(experiment) if entry == "run" else self.analysis_module(experiment)
        return code_digest(self.sources, module, entry)

    @cached_property
    def _code_digests(self) -> Mapping[str, str]:
        """Of each `experiment.entry` whose code is in order."""
        found: dict[str, str] = kept(
            self.root, f"{self.name}-code", f"{self.sources.fingerprint} {list(self.experiments)}", self._digest_code
        )
        return found

    def _digest_code(self) -> dict[str, str]:
        found = {}
        for experiment in self.experiments:
            for entry in ENTRIES:
                with suppress(UserError):  # said where that entry is asked for
                    found[f"{experiment}.{entry}"] = self._code_digest(experiment, entry)
        return found

    def datasets(self, run: Run) -> list[str]:
        """The data sets that a run reads."""
        fields = self.parameter_fields(run.experiment).values()
        return sorted({str(run.settings.get(f.name, f.default)) for f in fields if f.names_dataset})

    def needed(self, run: Run) -> dict[str, Run]:
        """The runs whose artifacts `run` starts from, by the name of the need."""
        found = {}
        for name, need in self.experiment(run.experiment).needs.items():
            wanted: dict[str, Any] = {**need.where, **{axis: run.axes.get(axis) for axis in need.match}}
            by_values = self._runs_by(need.experiment, run.scale, tuple(wanted))
            try:
                matching = by_values.get(tuple(wanted.values()), [])
            except TypeError:  # a list in `where` equals no value of an axis
                matching = []
            if len(matching) != 1:
                raise UserError(
                    f"{self.folder / 'config.yaml'}: {run.experiment}.needs.{name}: {len(matching)} runs of "
                    f"{need.experiment} match {wanted} for {run.name}; where and match must pick exactly one."
                )
            found[name] = matching[0]
        return found

    def _runs_by(self, experiment: str, scale: str, axes: tuple[str, ...]) -> Mapping[tuple[Any, ...], list[Run]]:
        """The runs of an experiment that have these axes, by their values there."""
        key = (experiment, scale, axes)
        if key not in self._by_axes:
            index: dict[tuple[Any, ...], list[Run]] = {}
            for run in self.runs(experiment, scale):
                if set(axes) <= set(run.axes):
                    index.setdefault(tuple(run.axes[axis] for axis in axes), []).append(run)
            self._by_axes[key] = index
        return self._by_axes[key]


def check_scale(scale: str) -> str:
    """`scale`, or a `UserError` that lists the scales."""
    if scale not in SCALES:
        raise UserError(f"there is no scale {scale!r}: choose one of {', '.join(SCALES)}.")
    return scale


def _named_parameters(name: str, config: ExperimentConfig) -> list[tuple[tuple[str, ...], str]]:
    """(place in config.yaml, parameter) for every parameter that an experiment's entry sets."""
    named: list[tuple[tuple[str, ...], str]] = [((name, "base", parameter), parameter) for parameter in config.base]
    for key in ("lengths", "sizes", "batches"):
        named += [((name, "rehearsal", key, parameter), parameter) for parameter in getattr(config.rehearsal, key)]
    named += [((name, "rehearsal", "inverse"), parameter) for parameter in config.rehearsal.inverse]
    grids: list[tuple[tuple[str, ...], Any]] = [((name, "grid"), config.grid)]
    for scale, settings in config.scales.items():
        named += [((name, "scales", scale, parameter), parameter) for parameter in settings.parameters]
        grids.append(((name, "scales", scale, "grid"), settings.grid))
    for place, grid in grids:
        for axis, values in grid.items():
            if isinstance(values, dict):
                named += [((*place, axis, label, p), p) for label, sets in values.items() for p in sets]
            else:
                named.append(((*place, axis), axis))
    return named


def _place_of_parameter(run: Run, config: ExperimentConfig, parameter: str) -> tuple[int | str, ...]:
    """The place in config.yaml that sets a parameter of a run: its axis, the scale or base; () for none."""
    settings = config.settings(run.scale)
    scale = (run.experiment, "scales", run.scale)
    for axis, value in run.axes.items():
        grid = (*scale, "grid") if axis in settings.grid else (run.experiment, "grid")
        points = settings.grid.get(axis, config.grid.get(axis))
        if isinstance(points, dict) and parameter in points[value]:
            return (*grid, axis, value, parameter)
        if axis == parameter and isinstance(points, list):
            return (*grid, axis, points.index(value))
        if axis == parameter and isinstance(points, int):
            return (*grid, axis)
    if parameter in settings.parameters:
        return (*scale, parameter)
    return (run.experiment, "base", parameter) if parameter in config.base else ()


def _needed_first(config: Mapping[str, ExperimentConfig], path: Path) -> list[str]:
    order: list[str] = []
    trail: list[str] = []

    def visit(name: str) -> None:
        if name in trail:
            raise UserError(f"{path}: needs go in a circle: {' -> '.join([*trail[trail.index(name) :], name])}.")
        if name in order:
            return
        trail.append(name)
        for label, need in config[name].needs.items():
            if need.experiment not in config:
                raise UserError(
                    f"{path}: {name}.needs.{label} names no experiment of this paper: "
                    f"{need.experiment!r}{suggestion(need.experiment, config)}"
                )
            visit(need.experiment)
        trail.pop()
        order.append(name)

    for name in config:
        visit(name)
    return order
