"""Executing a job: which runs are due, in which calls of `run()`, and how each ended."""

import errno
import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pydantic
import torch

from common.errors import DataUnavailable, UserError, writable
from common.experiments import memory, provenance
from common.experiments.context import Clock, OutOfTime, RunContext
from common.experiments.grid import Job, Run, together
from common.experiments.identity import Identities
from common.experiments.integrity import Damaged
from common.experiments.outcomes import COMPUTED, FORGOTTEN, Outcome, Results, RunRecord, Status
from common.experiments.parameters import ExperimentParameters
from common.experiments.replication import Replication
from common.experiments.workspace import Busy, Workspace
from common.files import finite, sha256_of, write_json

Report = Callable[[Run, float, str], None]
"""Called with the first run of the call under way, the fraction of the job done, and a message."""


DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class _TooLarge(Exception):
    """A call of `run()` that does not fit into memory."""

    def __init__(self, shortage: memory.Shortage) -> None:
        self.shortage = shortage


@dataclass
class Executor:
    """Executes the runs of one replication.

    Attributes:
        retry: outcomes that are tried again although nothing changed ("failed").
            An `unfinished` or unavailable run is always tried again, and so is one whose results are gone.
        wait: whether to wait for another process that computes the same runs, or to refuse.
    """

    replication: Replication
    results: Results
    device: torch.device
    clock: Clock = field(default_factory=Clock)
    retry: frozenset[str] = frozenset()
    wait: bool = False
    report: Report = lambda run, fraction, message: None

    def __post_init__(self) -> None:
        self.identities = Identities(self.replication, self.results)
        self._computed = False

    def execute(self, job: Job) -> dict[str, Outcome]:
        """Bring every run of the job to an outcome; current ones are left alone. Writes the job's marker.

        Returns:
            Outcome by `experiment/run name`.

        Raises:
            UserError: a parameter is out of range or a need matches no run; nothing has been computed then.
            OSError: the results folder cannot be written, ENOSPC or EDQUOT where its disk is full.
        """
        started = time.monotonic()
        broken = self._broken_modules(job)
        parameters = {run.key: self._parameters(run) for run in job.runs if run.experiment not in broken}
        previous = self.results.marker(job)
        self._computed = False
        outcomes: dict[str, Outcome] = {}
        calls = self._calls(job)
        for number, runs in enumerate(calls):
            if (problem := broken.get(runs[0].experiment)) is not None:
                identity = {run.name: self.identities.digest(run) for run in runs}
                outcomes |= self._all(runs, "failed", problem, identity)
                continue
            tell = self._teller(runs, number, len(calls))
            outcomes |= self._settle(runs, parameters, previous, tell)
        if outcomes != previous or self._computed:
            self.results.write_marker(job, outcomes, time.monotonic() - started)
        return outcomes

    def _broken_modules(self, job: Job) -> dict[str, str]:
        """Experiments whose file cannot be imported, with the reason."""
        broken = {}
        for experiment in dict.fromkeys(run.experiment for run in job.runs):
            try:
                importlib.import_module(self.replication.module(experiment))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever the file does, SystemExit included
                traceback.print_exc(file=sys.stderr)
                broken[experiment] = f"its file cannot be imported: {type(error).__name__}: {error}"
        return broken

    def _calls(self, job: Job) -> list[list[Run]]:
        by_experiment: dict[str, list[Run]] = {}
        for run in job.runs:
            by_experiment.setdefault(run.experiment, []).append(run)
        return [
            runs
            for experiment, members in by_experiment.items()
            for runs in together(members, self.replication.experiment(experiment))
        ]

    def _teller(self, runs: Sequence[Run], number: int, count: int) -> Callable[[float, str], None]:
        return lambda fraction, message: self.report(runs[0], (number + min(fraction, 1.0)) / count, message)

    def _settle(
        self,
        runs: list[Run],
        parameters: Mapping[str, ExperimentParameters],
        previous: Mapping[str, Outcome],
        tell: Callable[[float, str], None],
    ) -> dict[str, Outcome]:
        """Outcomes of the runs of one call; computes those that are due."""
        workspace = Workspace(self.results, runs)
        try:
            with workspace.locked(self.clock.left if self.wait else None):
                outcomes = self._settle_alone(workspace, runs, parameters, previous, tell)
        except Busy:
            if not self.wait:
                raise
            identity = {run.name: self.identities.digest(run) for run in runs}
            return self._all(runs, "unfinished", "another process computed it until the time ended", identity)
        tell(1.0, "")
        return {run.key: outcomes[run.key] for run in runs}

    def _settle_alone(
        self,
        workspace: Workspace,
        runs: list[Run],
        parameters: Mapping[str, ExperimentParameters],
        previous: Mapping[str, Outcome],
        tell: Callable[[float, str], None],
    ) -> dict[str, Outcome]:
        """`_settle` in a workspace that no other process has open."""
        workspace.finish_commit()
        outcomes: dict[str, Outcome] = {}
        due = []
        for run in runs:
            identity = self.identities.digest(run)
            before = previous.get(run.key)
            if self.identities.current(run):
                stored = self.results.stored(run)
                assert stored is not None
                outcomes[run.key] = Outcome(stored.status, stored.reason, identity)
            elif before is not None and before.identity == identity and not self._again(before):
                outcomes[run.key] = before
            elif (reason := self.identities.blocked_by(run)) is not None:
                outcomes[run.key] = Outcome("blocked", reason, identity)
            else:
                due.append(run)
        for part in self._resumable(due, workspace):
            outcomes |= self._compute_what_fits(workspace, part, parameters, tell)
        return outcomes

    def _again(self, outcome: Outcome) -> bool:
        return outcome.status in FORGOTTEN or outcome.status in self.retry or outcome.status in COMPUTED

    def _resumable(self, due: list[Run], workspace: Workspace) -> Iterator[list[Run]]:
        """The due runs, those of an interrupted call as that call had them and first."""
        interrupted = workspace.interrupted()
        resumed = [run for run in due if interrupted.get(run.name) == self.identities.digest(run)]
        if len(resumed) == len(interrupted) and resumed:
            yield resumed
            due = [run for run in due if run not in resumed]
        if due:
            yield due

    def _compute_what_fits(
        self,
        workspace: Workspace,
        runs: list[Run],
        parameters: Mapping[str, ExperimentParameters],
        tell: Callable[[float, str], None],
    ) -> dict[str, Outcome]:
        """One call of `run()`; where the memory does not suffice for all its runs, two calls of half of them."""
        try:
            return self._compute(workspace, runs, parameters, tell)
        except _TooLarge as too_large:
            short = too_large.shortage
        memory.release()  # only now: the traceback held what the call had allocated
        if len(runs) == 1:
            reason = f"{short.sentence}; {short.remedy('chunk' in type(parameters[runs[0].key]).model_fields)}"
            return self._all(runs, "failed", reason, {run.name: self.identities.digest(run) for run in runs})
        half = (len(runs) + 1) // 2
        print(
            f"{runs[0]}: {short.sentence} with {len(runs)} runs at once; they are computed {half} and "
            f"{len(runs) - half} at a time.",
            flush=True,
        )
        parts = (runs[:half], runs[half:])
        return {
            name: outcome
            for part in parts
            for name, outcome in self._compute_what_fits(workspace, part, parameters, tell).items()
        }

    def _compute(
        self,
        workspace: Workspace,
        runs: list[Run],
        parameters: Mapping[str, ExperimentParameters],
        tell: Callable[[float, str], None],
    ) -> dict[str, Outcome]:
        """One call of `run()`.

        Raises:
            _TooLarge: its runs do not fit into memory together.
            OSError: the disk is full.
        """
        workspace.runs = runs
        identity = {run.name: self.identities.digest(run) for run in runs}
        if self.clock.left() <= 0:
            return self._all(runs, "unfinished", "the time ended before it began", identity)
        workspace.begin(identity)
        context = RunContext(
            [(run, parameters[run.key]) for run in runs],
            workspace,
            device=self.device,
            needed={run.name: self.replication.needed(run) for run in runs},
            clock=self.clock,
            report=tell,
        )
        started = datetime.now(UTC)
        module = importlib.import_module(self.replication.module(runs[0].experiment))
        try:
            module.run(context.runs, context)
        except OutOfTime:
            why = "it was asked to end" if self.clock.stop_requested else "the time allowed ended"
            return self._all(runs, "unfinished", f"{why}; the next invocation continues", identity)
        except DataUnavailable as error:
            return self._all(runs, "data_unavailable", str(error), identity)
        except Damaged as error:
            return self._all(runs, "unfinished", f"{error}; the next invocation computes that again", identity)
        except UserError as error:
            return self._all(runs, "failed", str(error), identity)
        except KeyboardInterrupt:
            raise
        except SystemExit as error:
            traceback.print_exc(file=sys.stderr)
            reason = f"run() ended the process (SystemExit: {error}) where it should return or raise an error"
            return self._all(runs, "failed", reason, identity)
        except BaseException as error:
            if _disk_is_full(error, self.results.root):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(self.results.root)) from error
            short = memory.shortage(error)
            if short is not None:
                raise _TooLarge(short) from error
            traceback.print_exc(file=sys.stderr)
            return self._all(runs, "failed", f"{type(error).__name__}: {error}", identity)
        finally:
            context.close()
        return self._keep(workspace, runs, context, started, identity)

    def _all(self, runs: Sequence[Run], status: Status, reason: str, identity: Mapping[str, str]) -> dict[str, Outcome]:
        return {run.key: Outcome(status, writable(reason), identity[run.name]) for run in runs}

    def _keep(
        self,
        workspace: Workspace,
        runs: list[Run],
        context: RunContext,
        started: datetime,
        identity: Mapping[str, str],
    ) -> dict[str, Outcome]:
        """Write outcome and provenance of each run and move the folders into place."""
        outcomes: dict[str, Outcome] = {}
        for run in runs:
            folder = workspace.run_folder(run)
            if not (folder / "records.jsonl").is_file():
                if run.name not in context.divergences:
                    outcomes[run.key] = Outcome("failed", "run() recorded nothing for it", identity[run.name])
                    continue
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "records.jsonl").touch()
            status: Status = "diverged" if run.name in context.divergences else "completed"
            reason = context.divergences.get(run.name, "")
            artifacts = sorted((folder / "artifacts").glob("*"))
            write_json(folder / "provenance.json", self._provenance(run, context, started, len(runs)))
            record = RunRecord(
                status=status,
                reason=reason,
                inputs=self.identities.inputs(run),
                used=self.identities.used(run),
                artifacts={path.name: sha256_of(path) for path in artifacts},
                records=sha256_of(folder / "records.jsonl"),
                provenance=sha256_of(folder / "provenance.json"),
                sizes={path.name: path.stat().st_size for path in artifacts},
            )
            self.results.store(folder, record)
            outcomes[run.key] = Outcome(status, reason, identity[run.name])
        workspace.runs = [run for run in runs if outcomes[run.key].status != "failed"]
        workspace.commit()
        self._computed = True
        return outcomes

    def _provenance(self, run: Run, context: RunContext, started: datetime, shared: int) -> dict[str, Any]:
        root = self.replication.root
        parameters = next(p for p in context.runs if context.run_of(p) == run)
        facts: dict[str, Any] = finite(
            {
                "run": str(run),
                "scale": run.scale,
                "axes": dict(run.axes),
                "parameters": parameters.model_dump(mode="json"),
                "inputs": self.identities.inputs(run),
                "commit": provenance.commit(root),
                "dirty": provenance.dirty(root),
                "locks": provenance.lock_digests(root),
                "versions": provenance.versions(),
                "device": provenance.device_facts(self.device),
                "started": started.isoformat(timespec="seconds"),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "segments": context.segments,
                "computed_together": shared,
                "seconds": context.elapsed / shared,
                "processor_seconds": context.processor_seconds / shared,
                "peak_memory_mb": provenance.peak_memory_mb(),
            }
        )
        return facts

    def _parameters(self, run: Run) -> ExperimentParameters:
        module = importlib.import_module(self.replication.module(run.experiment))
        try:
            parameters: ExperimentParameters = module.Parameters(**run.settings)
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise UserError(
                f"{self.replication.line_of_parameter(run, name)}: {run.experiment}.{name} = "
                f"{first['input']!r} at scale {run.scale}: {first['msg']}."
            ) from error
        self.replication.needed(run)
        return parameters


@contextmanager
def stopping_at_checkpoints(clock: Clock) -> Iterator[None]:
    """SIGTERM, SIGHUP (a closed terminal) and the first Ctrl-C end the job at its next checkpoint.

    The second Ctrl-C ends it at once. A signal that was ignored before (SIGHUP under nohup) stays so.
    """

    def stop(number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            if clock.stop_requested:
                raise KeyboardInterrupt
            with suppress(OSError):  # not print(): it may be in the middle of printing
                os.write(2, b"\nEnding at the next checkpoint; Ctrl-C again ends at once.\n")
        clock.stop_requested = True

    ending = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in ending if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def prepare_torch(cpus: int) -> torch.device:
    """Memory, threads, determinism and the device of a job."""
    memory.keep_freed()
    torch.set_num_threads(cpus)
    if not torch.cuda.is_available():
        return torch.device("cpu")  # deterministic at a given number of threads
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    return torch.device("cuda")


def _disk_is_full(error: BaseException, folder: Path) -> bool:
    """Whether an error comes of a full disk, which torch reports as a position that it did not expect."""
    if isinstance(error, OSError):
        return error.errno in DISK_FULL
    return isinstance(error, RuntimeError) and shutil.disk_usage(folder).free < 2**20
