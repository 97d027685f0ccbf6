"""The context of `run()` with records, artifacts and checkpoints in memory; all else is the framework's own."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from common.datasets import Dataset
from common.errors import UserError
from common.experiments.context import Clock, OutOfTime, RunContext, Tensors
from common.experiments.digests import short_digest
from common.experiments.grid import Run
from common.experiments.outcomes import Results
from common.experiments.parameters import ExperimentParameters
from common.experiments.workspace import Workspace


@dataclass(frozen=True)
class Artifact:
    """Tensors that a run has saved."""

    run: ExperimentParameters
    name: str
    tensors: Tensors


@dataclass(frozen=True)
class Checkpoint:
    """A state as `torch.save` wrote it, and what the context held at that time."""

    content: bytes
    rows: Sequence[Mapping[str, Any]]
    artifacts: Sequence[Artifact]
    divergences: Mapping[str, str]


class _Lines:
    """Takes the lines of a run's records.jsonl and keeps them as the rows that an analysis sees."""

    def __init__(self, rows: list[dict[str, Any]], fixed: Mapping[str, Any]) -> None:
        self._rows, self._fixed = rows, fixed

    def write(self, line: str) -> None:
        self._rows.append({**self._fixed, **json.loads(line)})


class MemoryContext(RunContext):
    """A context whose runs become known when they are first named; by default `settings` is their axis beside the seed.

    Attributes:
        rows: the records with the scalar parameters, the axes and the run's name, as an analysis gets them.
        artifacts: what was saved, in order.
        checkpoints: every state that was offered, in order; each may begin another context.
    """

    def __init__(
        self,
        experiment: str = "experiment",
        *,
        axes: Callable[[Any], Mapping[str, Any]] | None = None,
        data: Dataset | None = None,
        needed: Sequence[Artifact] = (),
        match: Sequence[str] = ("seed",),
        begun: Checkpoint | None = None,
        stop_at: int | None = None,
    ) -> None:
        """
        Args:
            experiment: its name, or that of its module.
            axes: a run's axes without the seed.
            data: what `data()` gives under every name.
            needed: artifacts of other experiments; a run is given those whose parameters `match` equal its own.
            begun: where an earlier context was stopped.
            stop_at: the time is up at this checkpoint, counted from 1.
        """
        self.experiment = experiment.rpartition(".")[2]
        self.rows = [dict(row) for row in begun.rows] if begun else []
        self.artifacts = list(begun.artifacts) if begun else []
        self.checkpoints: list[Checkpoint] = []
        self._axes, self._data, self._given, self._match = axes, data, needed, match
        self._begun, self._stop_at = begun, stop_at
        nowhere = Workspace(Results(Path("/nowhere")), [Run("paper", self.experiment, "test", {}, {})])
        cpu = torch.device("cpu")
        super().__init__([], nowhere, device=cpu, needed={}, clock=Clock(), report=lambda done, message: None)

    def run_of(self, run: ExperimentParameters) -> Run:
        if id(run) not in self._run_of:
            if run in self.runs:
                raise ValueError("pass the very Parameters object that run() was given, not a copy")
            settings = run.model_dump(mode="json", exclude={"seed"})
            axes = {"settings": short_digest(settings)} if self._axes is None else self._axes(run)
            self.runs.append(run)
            self._run_of[id(run)] = Run("paper", self.experiment, "test", {**axes, "seed": run.seed}, settings)
        return super().run_of(run)

    def _file(self, run: Run) -> Any:
        parameters = next(given for given in self.runs if self._run_of[id(given)] is run)
        plain = (type(None), bool, int, float, str)
        scalars = {key: value for key, value in parameters.model_dump().items() if isinstance(value, plain)}
        return _Lines(self.rows, {**scalars, "run": run.name, **run.axes})

    def save(self, run: ExperimentParameters, name: str, tensors: Tensors) -> None:
        self.run_of(run)
        self.artifacts.append(Artifact(run, name, {key: value.detach().clone() for key, value in tensors.items()}))

    def artifact(self, run: ExperimentParameters, need: str, name: str) -> dict[str, torch.Tensor]:
        for given in self._given:
            if given.name == name and all(getattr(given.run, key) == getattr(run, key) for key in self._match):
                return {key: value.clone() for key, value in given.tensors.items()}
        raise UserError(f"{self.run_of(run)}: {need} kept no artifact {name!r}.")

    def data(self, name: str) -> Dataset:
        return super().data(name) if self._data is None else self._data

    def restore(self) -> Any | None:
        if self._begun is None:
            return None
        self.divergences = dict(self._begun.divergences)
        return torch.load(io.BytesIO(self._begun.content), weights_only=True, map_location="cpu")

    def checkpoint(self, state: Any) -> None:
        stream = io.BytesIO()
        torch.save(state, stream)
        now = Checkpoint(stream.getvalue(), list(self.rows), list(self.artifacts), dict(self.divergences))
        self.checkpoints.append(now)
        if len(self.checkpoints) == self._stop_at:
            raise OutOfTime
