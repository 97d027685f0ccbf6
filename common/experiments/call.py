"""One call of `run()`: which of its runs are due, how each ended, and what is kept of it."""

import errno
import importlib
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from common.errors import DataUnavailable, UserError, told, writable
from common.experiments import process, provenance
from common.experiments.context import Clock, OutOfTime, RunContext
from common.experiments.grid import Run
from common.experiments.identity import Identities
from common.experiments.integrity import Damaged
from common.experiments.outcomes import COMPUTED, FORGOTTEN, Outcome, Results, RunRecord, Status
from common.experiments.parameters import ExperimentParameters
from common.experiments.replication import Replication
from common.experiments.workspace import Busy, Workspace
from common.files import finite, sha256_of, write_json
from common.memory import Shortage, shortage

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class _TooLarge(Exception):
    """A call of `run()` that does not fit into memory."""

    def __init__(self, shortage: Shortage) -> None:
        self.shortage = shortage


@dataclass
class Conditions:
    """What all calls of a replication are made with.

    Attributes:
        retry: outcomes that are tried again although nothing changed ("failed").
            An `unfinished` or unavailable run is always tried again, and so is one whose results are gone.
        wait: whether to wait for another process that computes the same runs, or to refuse.
        context: what makes the context of a call, as `RunContext` does.
    """

    replication: Replication
    results: Results
    device: torch.device
    clock: Clock = field(default_factory=Clock)
    retry: frozenset[str] = frozenset()
    wait: bool = False
    context: Callable[..., RunContext] = RunContext

    def __post_init__(self) -> None:
        self.identities = Identities(self.replication, self.results)
        root = self.replication.root
        # before the first run is computed: what is committed while it is, is younger than it
        self.source = {"commit": provenance.commit(root), "dirty": provenance.dirty(root)}


class Call:
    """Runs that one call of `run()` may compute together.

    Attributes:
        computed: whether anything was kept.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        conditions: Conditions,
        parameters: Mapping[str, ExperimentParameters],
        previous: Mapping[str, Outcome],
        tell: Callable[[float, str], None],
    ) -> None:
        """
        Args:
            parameters: of each run, by its key.
            previous: how runs ended before, by key.
            tell: called with the fraction of the call that is done, and a message.
        """
        self.computed = False
        self._runs, self._parameters, self._previous, self._tell = list(runs), parameters, previous, tell
        self._with, self._identities = conditions, conditions.identities
        self._workspace = Workspace(conditions.results, runs)

    def settle(self) -> dict[str, Outcome]:
        """Outcomes of the runs by key; computes those that are due."""
        try:
            with self._workspace.locked(self._with.clock.left if self._with.wait else None):
                outcomes = self._settle_alone()
        except Busy:
            if not self._with.wait:
                raise
            return self.all("unfinished", "another process computed it until the time ended")
        self._tell(1.0, "")
        return {run.key: outcomes[run.key] for run in self._runs}

    def all(self, status: Status, reason: str, runs: Sequence[Run] | None = None) -> dict[str, Outcome]:
        """One outcome for all runs, or for these."""
        return {run.key: self._outcome(run, status, writable(reason)) for run in runs or self._runs}

    def _outcome(self, run: Run, status: Status, reason: str) -> Outcome:
        return Outcome(status, reason, self._identities.digest(run))

    def _settle_alone(self) -> dict[str, Outcome]:
        """`settle` in a workspace that no other process has open."""
        self._workspace.finish_commit()
        outcomes: dict[str, Outcome] = {}
        due = []
        for run in self._runs:
            before = self._previous.get(run.key)
            stored = self._with.results.stored(run)
            if stored is not None and self._identities.current(run):
                outcomes[run.key] = self._outcome(run, stored.status, stored.reason)
            elif before is not None and before.identity == self._identities.digest(run) and not self._again(before):
                outcomes[run.key] = before
            elif (reason := self._identities.blocked_by(run)) is not None:
                outcomes[run.key] = self._outcome(run, "blocked", reason)
            else:
                due.append(run)
        for part in self._resumable(due):
            outcomes |= self._compute_what_fits(part)
        return outcomes

    def _again(self, outcome: Outcome) -> bool:
        return outcome.status in FORGOTTEN or outcome.status in self._with.retry or outcome.status in COMPUTED

    def _resumable(self, due: list[Run]) -> Iterator[list[Run]]:
        """The due runs, those of an interrupted call as that call had them and first."""
        interrupted = self._workspace.interrupted()
        resumed = [run for run in due if interrupted.get(run.name) == self._identities.digest(run)]
        if len(resumed) == len(interrupted) and resumed:
            yield resumed
            due = [run for run in due if run not in resumed]
        if due:
            yield due

    def _compute_what_fits(self, runs: list[Run]) -> dict[str, Outcome]:
        """One call of `run()`; where the memory does not suffice for all its runs, two calls of half of them."""
        try:
            return self._compute(runs)
        except _TooLarge as too_large:
            short = too_large.shortage
        process.release()  # only now: the traceback held what the call had allocated
        if len(runs) == 1:
            remedy = short.remedy("chunk" in type(self._parameters[runs[0].key]).model_fields)
            return self.all("failed", f"{short.sentence}; {remedy}", runs)
        half = (len(runs) + 1) // 2
        print(
            f"{runs[0]}: {short.sentence} with {len(runs)} runs at once; they are computed {half} and "
            f"{len(runs) - half} at a time.",
            flush=True,
        )
        return self._compute_what_fits(runs[:half]) | self._compute_what_fits(runs[half:])

    def _compute(self, runs: list[Run]) -> dict[str, Outcome]:
        """One call of `run()`.

        Raises:
            _TooLarge: its runs do not fit into memory together.
            OSError: the disk is full.
        """
        self._workspace.runs = runs
        clock, replication = self._with.clock, self._with.replication
        if clock.left() <= 0:
            return self.all("unfinished", "the time ended before it began", runs)
        self._source = self._workspace.begin({r.name: self._identities.digest(r) for r in runs}, self._with.source)
        context = self._with.context(
            [(run, self._parameters[run.key]) for run in runs],
            self._workspace,
            device=self._with.device,
            needed={run.name: replication.needed(run) for run in runs},
            clock=clock,
            report=self._tell,
        )
        started = datetime.now(UTC)
        module = importlib.import_module(replication.module(runs[0].experiment))
        try:
            module.run(context.runs, context)
        except OutOfTime:
            why = "it was asked to end" if clock.stop_requested else "the time allowed ended"
            return self.all("unfinished", f"{why}; the next invocation continues", runs)
        except DataUnavailable as error:
            return self.all("data_unavailable", str(error), runs)
        except Damaged as error:
            return self.all("unfinished", f"{error}; the next invocation computes that again", runs)
        except UserError as error:
            return self.all("failed", str(error), runs)
        except KeyboardInterrupt:
            raise
        except SystemExit as error:
            traceback.print_exc(file=sys.stderr)
            reason = f"run() ended the process (SystemExit: {error}) where it should return or raise an error"
            return self.all("failed", reason, runs)
        except BaseException as error:
            root = self._with.results.root
            if _disk_is_full(error, root):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(root)) from error
            short = shortage(error)
            if short is not None:
                raise _TooLarge(short) from error
            traceback.print_exc(file=sys.stderr)
            return self.all("failed", told(error, replication.root), runs)
        finally:
            context.close()
        return self._keep(runs, context, started)

    def _keep(self, runs: list[Run], context: RunContext, started: datetime) -> dict[str, Outcome]:
        """Write outcome and provenance of each run and move the folders into place."""
        outcomes: dict[str, Outcome] = {}
        for run in runs:
            folder = self._workspace.run_folder(run)
            if not (folder / "records.jsonl").is_file():
                if run.name not in context.divergences:
                    outcomes[run.key] = self._outcome(run, "failed", "run() recorded nothing for it")
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
                inputs=self._identities.inputs(run),
                used=self._identities.used(run),
                artifacts={path.name: sha256_of(path) for path in artifacts},
                records=sha256_of(folder / "records.jsonl"),
                provenance=sha256_of(folder / "provenance.json"),
                sizes={path.name: path.stat().st_size for path in artifacts},
            )
            self._with.results.store(folder, record)
            outcomes[run.key] = self._outcome(run, status, reason)
        self._workspace.runs = [run for run in runs if outcomes[run.key].status != "failed"]
        self._workspace.commit()
        self.computed = True
        return outcomes

    def _provenance(self, run: Run, context: RunContext, started: datetime, shared: int) -> dict[str, Any]:
        root = self._with.replication.root
        facts: dict[str, Any] = finite(
            {
                "run": str(run),
                "scale": run.scale,
                "axes": dict(run.axes),
                "parameters": self._parameters[run.key].model_dump(mode="json"),
                "inputs": self._identities.inputs(run),
                "commit": self._source["commit"],
                "dirty": self._source["dirty"],
                "locks": provenance.lock_digests(root),
                "versions": provenance.versions(),
                "device": provenance.device_facts(self._with.device),
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


def _disk_is_full(error: BaseException, folder: Path) -> bool:
    """Whether an error comes of a full disk, which torch reports as a position that it did not expect."""
    if isinstance(error, OSError):
        return error.errno in DISK_FULL
    return isinstance(error, RuntimeError) and shutil.disk_usage(folder).free < 2**20
