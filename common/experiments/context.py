"""What an experiment's `run` has in hand: seeds, records, artifacts, checkpoints, data, progress."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch

from common.errors import UserError, writable
from common.experiments import integrity
from common.experiments.grid import Run
from common.experiments.outcomes import encode_row, kind_of, plain_row
from common.experiments.parameters import ExperimentParameters
from common.experiments.seeds import stream_seed
from common.experiments.workspace import Workspace
from common.files import atomic_path

if TYPE_CHECKING:
    from common.datasets import Dataset

CHECKPOINT_SECONDS = 30.0
"""Least time between two checkpoints; `REPLICATIONS_CHECKPOINT_SECONDS` overrides it."""

Tensors = Mapping[str, torch.Tensor]


class OutOfTime(Exception):
    """The time allowed is used up; a checkpoint is on disk."""


class Clock:
    """When to stop: a deadline or a request to end, seen at checkpoints."""

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        self.stop_requested = False

    def left(self) -> float:
        """Seconds until the deadline (infinite without one, 0 once a stop was requested)."""
        if self.stop_requested:
            return 0.0
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()


class RunContext:
    """The framework's side of one call of `run(runs, context)`."""

    def __init__(
        self,
        runs: Sequence[tuple[Run, ExperimentParameters]],
        workspace: Workspace,
        *,
        device: torch.device,
        needed: Mapping[str, Mapping[str, Run]],
        clock: Clock,
        report: Callable[[float, str], None],
    ) -> None:
        """
        Args:
            runs: each run with its parameters, in the order in which `run` gets them.
            needed: run name to need to the run whose artifacts it starts from.
            report: called with the fraction done and a message.
        """
        self.device = device
        self.runs = [parameters for _, parameters in runs]
        self.divergences: dict[str, str] = {}
        self.elapsed_before = self.processor_before = 0.0
        self.segments = 1
        self._run_of = {id(parameters): run for run, parameters in runs}
        self._workspace = workspace
        self._needed = needed
        self._clock = clock
        self._report = report
        self._files: dict[str, TextIO] = {}
        self._kinds: dict[str, str] = {}
        self._started = self._last_call = self._last_write = time.monotonic()
        self._processor_started = time.process_time()
        self._ended: tuple[float, float] | None = None
        self._longest_gap = self._write_seconds = 0.0
        self._interval = float(os.environ.get("REPLICATIONS_CHECKPOINT_SECONDS", CHECKPOINT_SECONDS))

    # Randomness

    def stream_seed(self, run: ExperimentParameters, stream: str) -> int:
        """Seed of a stream: `init`, `split`, `batches`, `probes` are equal in all arms of a seed, others not."""
        where = self.run_of(run)
        return stream_seed(where.experiment, stream, run.seed, where.axes)

    def generator(self, run: ExperimentParameters, stream: str) -> torch.Generator:
        """A CPU generator at the start of a stream."""
        return torch.Generator().manual_seed(self.stream_seed(run, stream))

    # Records and artifacts

    def record(self, run: ExperimentParameters, **values: Any) -> None:
        """Add a row: plain numbers, truth values and texts."""
        where = self.run_of(run)
        clash = where.axes.keys() & values.keys()
        if clash:
            raise ValueError(f"record() of {where}: {', '.join(sorted(clash))} is an axis already")
        row = plain_row(values)
        for name, value in row.items():
            kind = kind_of(value)
            if value is not None and kind != (before := self._kinds.setdefault(name, kind)):
                raise TypeError(f"record {name!r} holds {before} elsewhere and {kind} here; give it one kind")
        self._file(where).write(encode_row(row))

    def save(self, run: ExperimentParameters, name: str, tensors: Tensors) -> None:
        """Keep tensors as `artifacts/<name>.safetensors` of the run; `name` is a plain file name."""
        from safetensors.torch import save_file

        if name.startswith(".") or Path(name).name != name or "\0" in name:
            raise ValueError(f"save() of {self.run_of(run)}: {name!r} cannot name an artifact; give a plain file name")
        plain = {key: tensor.detach().to("cpu").contiguous().clone() for key, tensor in tensors.items()}
        with atomic_path(self._workspace.run_folder(self.run_of(run)) / "artifacts" / f"{name}.safetensors") as path:
            save_file(plain, path)

    def artifact(self, run: ExperimentParameters, need: str, name: str) -> dict[str, torch.Tensor]:
        """Tensors `name` of the run that the need `need` of config.yaml names, on this context's device.

        Raises:
            UserError: there is no such need or artifact.
            Damaged: the artifact does not have the digest that was stated when it was made.
        """
        from safetensors.torch import load_file

        where = self.run_of(run)
        if need not in self._needed[where.name]:
            raise UserError(f"{where}: config.yaml has no need {need!r}.")
        needed = self._needed[where.name][need]
        stored = self._workspace.results.stored(needed)
        file = f"{name}.safetensors"
        if stored is None or file not in stored.artifacts:
            raise UserError(f"{where}: the needed run {needed.name} kept no artifact {name!r}.")
        try:
            path = integrity.artifact(self._workspace.results.folder(needed), file, stored.artifacts[file])
        except integrity.Damaged as damage:
            raise integrity.Damaged(f"it needs {needed}, which is damaged: {damage}") from None
        return load_file(path, device=str(self.device))

    def diverged(self, run: ExperimentParameters, reason: str) -> None:
        """Say that a run became infinite or nan; its records so far are kept, the others go on."""
        self.divergences[self.run_of(run).name] = writable(reason)

    # Data

    def data(self, name: str) -> "Dataset":
        """A registered data set, shared by all who ask; raises `DataUnavailable`, which becomes the runs' outcome.

        Raises:
            UserError: its inputs are not bytes, which experiments scale as such.
        """
        from common.datasets.shared import shared

        found = shared(name)
        for split in (found.train, found.test):
            if split.inputs.dtype != torch.uint8:
                raise UserError(f"{split.name}: experiments take uint8 inputs, 0 to 255, not {split.inputs.dtype}.")
        return found

    # Time, checkpoints, messages

    def restore(self) -> Any | None:
        """The state of the last checkpoint, None at a fresh start; later records are dropped.

        A checkpoint that cannot be read, or that knows of more records than there are, is set aside.
        """
        self._close_files()
        saved = self._workspace.load_checkpoint()
        if saved is None:
            return None
        offsets = {self._records_path(run): saved["offsets"].get(run.name, 0) for run in self._run_of.values()}
        sizes = {path: path.stat().st_size if path.is_file() else 0 for path in offsets}
        if any(sizes[path] < offsets[path] for path in offsets):
            self._workspace.set_checkpoint_aside("its records are shorter than it states")
            return None
        for path in offsets:
            if path.is_file():
                with path.open("r+b") as stream:
                    stream.truncate(offsets[path])
        self.divergences = dict(saved["divergences"])
        self.elapsed_before = saved["elapsed"]
        self.processor_before = saved.get("processor", saved["elapsed"])  # of an older checkpoint
        self.segments = saved["segments"] + 1
        return saved["state"]

    def checkpoint(self, state: Any) -> None:
        """Offer a state to resume from: nested dicts and lists of tensors, numbers and texts.

        Call it once a step or epoch; it is written when due. When the time is up it is written and the call
        ends here, to be continued by the next invocation.
        """
        now = time.monotonic()
        self._longest_gap = max(self._longest_gap, now - self._last_call)
        out_of_time = self._clock.left() < self._longest_gap + 2 * self._write_seconds
        if out_of_time or now - self._last_write >= self._interval:
            self._write(state)
        self._last_call = time.monotonic()
        if out_of_time:
            raise OutOfTime

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Say how far this call is."""
        self._report(done / total if total else 1.0, message)

    def log(self, text: str) -> None:
        """A line for the job's log."""
        print(f"{self.name}: {text}", flush=True)

    @property
    def name(self) -> str:
        """The experiment and the first of the runs, for messages."""
        return str(next(iter(self._run_of.values())))

    @property
    def elapsed(self) -> float:
        """Seconds spent on this call until now or its end, earlier segments included."""
        now = time.monotonic() if self._ended is None else self._ended[0]
        return self.elapsed_before + now - self._started

    @property
    def processor_seconds(self) -> float:
        """Processor time of this call until now or its end, of all threads: what a busy machine does not lengthen."""
        now = time.process_time() if self._ended is None else self._ended[1]
        return self.processor_before + now - self._processor_started

    def close(self) -> None:
        """The call has ended: its time stands, and its record files are flushed and closed."""
        self._ended = time.monotonic(), time.process_time()
        self._close_files()

    def _close_files(self) -> None:
        for stream in self._files.values():
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()
        self._files = {}

    def _write(self, state: Any) -> None:
        start = time.monotonic()
        offsets = {}
        for run in self._run_of.values():
            stream = self._files.get(run.name)
            if stream is not None:
                stream.flush()
                os.fsync(stream.fileno())
            path = self._records_path(run)
            offsets[run.name] = path.stat().st_size if path.is_file() else 0
        self._workspace.save_checkpoint(
            {
                "state": state,
                "offsets": offsets,
                "divergences": self.divergences,
                "elapsed": self.elapsed,
                "processor": self.processor_seconds,
                "segments": self.segments,
            }
        )
        self._last_write = time.monotonic()
        self._write_seconds = max(self._write_seconds, self._last_write - start)

    def run_of(self, run: ExperimentParameters) -> Run:
        """The grid point of a Parameters object that `run()` was given."""
        try:
            return self._run_of[id(run)]
        except KeyError:
            raise ValueError("pass the very Parameters object that run() was given, not a copy") from None

    def _records_path(self, run: Run) -> Path:
        return self._workspace.run_folder(run) / "records.jsonl"

    def _file(self, run: Run) -> TextIO:
        if run.name not in self._files:
            path = self._records_path(run)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[run.name] = path.open("a")
        return self._files[run.name]
