"""`replicate rehearse`: every kind of call of a scale, started once with its real parameters before it is paid for.

The calls of a paper are rehearsed in one process (`rehearsal_step.py`), needed experiments first, in a results folder
of their own that is removed in the end: nothing of it enters results. Where the process dies, or a call takes longer
than it may, that is told, and another process goes on with the call after it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.experiments.replication import Replication
from common.files import read_entries, write_json
from common.signals import answering
from common.workflow.discovery import chosen, select
from common.workflow.state import Folders
from common.workflow.timings import rehearsals_path

LOOK = 0.2
"""Seconds between two looks at what a rehearsal has told."""
START_SECONDS = 300.0
"""How long a process may take before its first call begins."""
WAITING = 5.0
"""How many times as long as it may compute a call may take where other work has the processor."""
METRICS = "metrics and figures"
"""The step after the calls of an experiment."""
ACCEPTANCE_MINUTES = 8.0
"""After which `accept` begins no other call."""

Told = Generator[dict[str, Any], None, int | None]
"""What a process tells, and the step with which the next one begins."""


@dataclass(frozen=True)
class Terms:
    """How a rehearsal is made.

    Attributes:
        device: `cpu` or `cuda`; empty for what there is.
        seconds: that one call may compute (`_Patience`).
        memory_gb: that a call may take; 0 for what there is.
        real_seconds: for which every real call is begun, to time its steps; 0 for not at all.
        again: whether every call is computed again, uninterrupted, and the records compared.
        count: whether the operations of every real call are counted for `real_seconds`, and nothing else is done.
        one_each: whether, of experiments that ask for a GPU alone, one call is rehearsed, with what it starts from.
        until: time (`time.time()`) after which no call is begun; 0 for none.
    """

    device: str = ""
    seconds: float = 600.0
    memory_gb: float = 0.0
    real_seconds: float = 0.0
    again: bool = False
    count: bool = False
    one_each: bool = False
    until: float = 0.0

    @property
    def over(self) -> bool:
        """Whether no other call is to be begun."""
        return bool(self.until) and time.time() > self.until


def accept(folders: Folders, scale: str, terms: Terms) -> Iterator[dict[str, Any]]:
    """Look at a GPU, then rehearse one call of each experiment that asks for one, with what it starts from.

    Yields the lines of `device_checks`, those of `rehearse_all`, and one that says how many experiments were not
    reached within `ACCEPTANCE_MINUTES`, where that is so.

    Raises:
        UserError: there is no GPU.
    """
    import torch

    from common.workflow.device_checks import device_checks

    check_device("cuda")
    terms = replace(terms, one_each=True, until=time.time() + 60 * ACCEPTANCE_MINUTES)
    asking = [
        f"{replication.name}/{name}"
        for replication in chosen(folders.root, [], scale)[0].values()
        for name in replication.experiments
        if replication.experiment(name).resources_at(scale).gpus and replication.runs(name, scale)
    ]
    left, device = set(asking), {"paper": "", "experiment": "device"}
    for check in device_checks(torch.device("cuda"), folders):
        yield {**device, **check}
    for line in rehearse_all(folders, asking, scale, terms) if asking else ():
        left.discard(f"{line['paper']}/{line['experiment']}")
        yield line
    if left:
        reason = (
            f"{len(left)} of {len(asking)} experiments that ask for a GPU were not reached in {ACCEPTANCE_MINUTES:g} "
            f"minutes; `replicate rehearse --scale {scale}` rehearses every call of all"
        )
        yield {**device, "check": "rehearsal", "status": "unfinished", "reason": reason}


def rehearse_all(folders: Folders, targets: Sequence[str], scale: str, terms: Terms) -> Iterator[dict[str, Any]]:
    """Rehearse papers, or experiments with what they start from; all papers if none is named.

    Yields what came of each call, as a mapping with the entries of `rehearsed_call.Rehearsing`, and after the calls of
    an experiment one with `analysis`: what went wrong with metrics and figures of their records. Where operations are
    counted, instead what `counting.count` makes of each call.

    Raises:
        UserError: there is no such paper, experiment or device.
    """
    check_device(terms.device)
    wanted: dict[str, set[str]] = {}
    for target in targets or chosen(folders.root, [], scale)[0]:
        replication, experiment = select(folders.root, target)
        names = set(replication.experiments) if experiment is None else _with_needs(replication, experiment)
        wanted.setdefault(replication.name, set()).update(names)
    for paper, names in wanted.items():
        yield from rehearse(select(folders.root, paper)[0], scale, folders, terms, names)


def check_device(device: str) -> None:
    """Raise `UserError` for a device that is not there."""
    if device not in ("", "cpu", "cuda"):
        raise UserError(f"--device {device}: choose cpu or cuda.")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise UserError("--device cuda: torch sees no GPU here.")


def _with_needs(replication: Replication, experiment: str) -> set[str]:
    needed = [need.experiment for need in replication.experiment(experiment).needs.values()]
    return {experiment}.union(*(_with_needs(replication, other) for other in needed))


def rehearse(
    replication: Replication, scale: str, folders: Folders, terms: Terms, experiments: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Rehearse experiments of a paper; a process that dies has a successor for what is left."""
    folders.results.mkdir(parents=True, exist_ok=True)
    with _cleaning_up(), tempfile.TemporaryDirectory(dir=folders.results, prefix=".rehearsal-") as scratch:
        stated = {
            "paper": replication.name,
            "experiments": sorted(experiments),
            "scale": scale,
            "scratch": scratch,
            "available_gb": terms.memory_gb,
            "real_seconds": terms.real_seconds,
            "again": terms.again,
            "count": terms.count,
            "one_each": terms.one_each,
            "until": terms.until,
        }
        first: int | None = 0
        while first is not None and not terms.over:
            first = yield from _process(folders, terms, stated, first)


@contextmanager
def _cleaning_up() -> Iterator[None]:
    """SIGTERM and a closed terminal end this process as Ctrl-C does: what it has started and written goes with it."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    with answering((signal.SIGTERM, signal.SIGHUP), end):
        yield


def exit_code(found: Sequence[Mapping[str, Any]]) -> int:
    """1 where something failed, 3 where nothing did and a call was refused or its data was unavailable, else 0."""
    said = {line.get("status") for line in found}
    if "failed" in said or any(line.get("analysis") for line in found):
        return 1
    return 3 if said & {"refused", "unavailable"} else 0


def keep(found: Sequence[Mapping[str, Any]], folders: Folders, scale: str) -> Path:
    """Write what was found, beside what was found of other calls before."""
    path = rehearsals_path(folders.store, scale)
    told = set(map(_call, found))
    write_json(path, [*(line for line in read_entries(path) if _call(line) not in told), *found])
    return path


def _call(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Of which call a line tells; without a setting, of the metrics and figures of an experiment."""
    return tuple(map(line.get, ("paper", "experiment", "setting")))


def _process(folders: Folders, terms: Terms, stated: Mapping[str, Any], first: int) -> Told:
    """One process from a step on; returns with which step another one should begin, None if all is told."""
    answers = Path(stated["scratch"], f"told-{first}.jsonl")
    task = answers.with_suffix(".json")
    write_json(task, {**stated, "answers": str(answers), "first": first, "owner": os.getpid()})
    with answers.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "common.cli", "step", "rehearse", str(task)],
            cwd=folders.root,
            env=_environment(terms.device),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            return (yield from _told(process, answers, terms.seconds))
        finally:
            process.kill()
            process.wait()


def _told(process: "subprocess.Popen[bytes]", answers: Path, seconds: float) -> Told:
    """What the process tells, until it ends or a step takes too long; returns as `_process` does."""
    seen, begun, patience = 0, None, _Patience(process.pid, START_SECONDS)
    while True:
        ended = process.poll() is not None
        lines = _lines(answers)
        for line in lines[seen:]:
            seen, patience = seen + 1, _Patience(process.pid, seconds)
            begun = line if "begun" in line else None
            if begun is None:
                yield line
        late = patience.ended()
        if not ended and not late:
            time.sleep(LOOK)
            continue
        if begun is None:
            if late and not seen:
                raise UserError(f"the rehearsal did not begin within {START_SECONDS:g} s")
            if process.returncode:
                raise UserError(f"the rehearsal ended before its end: {_death(process, answers)}")
            return None
        yield _lost(begun, f"it was not done after {seconds:g} s" if late else _death(process, answers))
        return None if begun["begun"] + 1 == begun["of"] else int(begun["begun"]) + 1


class _Patience:
    """With a step of a process: until it has computed, or waited for the processor `WAITING` times, for so long.

    Computing is processor time or time, whichever is less: several threads do not end it sooner, and a machine that is
    busy with other work ends it later. Where processor time cannot be read (`psutil` comes with Snakemake), it is time.
    """

    def __init__(self, process: int, seconds: float) -> None:
        self.process, self.seconds = process, seconds
        self.since, self.computed = time.monotonic(), _processor_seconds(process)

    def ended(self) -> bool:
        """Whether the step has taken longer than it may."""
        taken, now = time.monotonic() - self.since, _processor_seconds(self.process)
        if now is not None and self.computed is not None and taken < WAITING * self.seconds:
            taken = min(taken, now - self.computed)
        return taken > self.seconds


def _processor_seconds(process: int) -> float | None:
    """That a process has computed, in all its threads; None where that cannot be read."""
    try:
        import psutil
    except ImportError:
        return None
    try:
        times = psutil.Process(process).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _lost(begun: Mapping[str, Any], why: str) -> dict[str, Any]:
    """What is told of a call, or of metrics and figures, of which nothing more will be heard."""
    named = {name: begun[name] for name in ("paper", "experiment")}
    if begun["setting"] == METRICS:
        return {**named, "analysis": [why]}
    return {**named, "setting": begun["setting"], "status": "failed", "reason": why, "seeds": 0, "made": []}


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that grows."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _death(process: "subprocess.Popen[bytes]", answers: Path) -> str:
    """Why a process has ended before it told all."""
    if process.returncode is not None and process.returncode < 0:
        return f"its process was killed (signal {-process.returncode}), as for its memory"
    said = answers.with_suffix(".log").read_text(errors="replace").strip().splitlines()
    return said[-1] if said else f"its process ended with exit code {process.returncode}"


def _environment(device: str) -> dict[str, str]:
    """Of a rehearsal: a checkpoint is written whenever one is offered; `cpu` hides every GPU."""
    environment = {**os.environ, "REPLICATIONS_CHECKPOINT_SECONDS": "0"}
    return {**environment, "CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else environment
