"""Progress of jobs: a small file a job while it runs, and lines on a terminal or in a log."""

import os
import select
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from common.experiments.grid import Job, Run
from common.files import peek_json, published, remove_abandoned, status_of, write_json

TELL_SECONDS = 0.5
"""Least time between two writes of a job's progress; `REPLICATIONS_PROGRESS_SECONDS` overrides it."""
SILENT_SECONDS = 900.0
"""A job on another node that has told nothing for so long is taken for dead."""


class JobProgress:
    """Tells how far a job is: in `results/.progress/` for whoever watches, and in the job's log.

    Call it with the run under way, the fraction of the job done and a message; it limits its own rate.
    """

    def __init__(self, results: Path, job: Job, log: TextIO | None = None) -> None:
        self.path = results / ".progress" / job.scale / job.paper / f"{job.experiment}-{job.id}.json"
        self._job = job
        self._log = sys.stdout if log is None else log
        self._started = time.monotonic()
        self._written, self._logged = 0.0, self._started
        self._interval = float(os.environ.get("REPLICATIONS_PROGRESS_SECONDS", TELL_SECONDS))

    def __call__(self, run: Run, fraction: float, message: str = "") -> None:
        now = time.monotonic()
        if now - self._written >= self._interval:
            self._written = now
            content = {
                "fraction": fraction,
                "seconds": now - self._started,
                "run": str(run),
                "pid": os.getpid(),
                "host": socket.gethostname(),
            }
            with suppress(OSError):
                write_json(self.path, content)
        if now - self._logged >= (1.0 if self._log.isatty() else 20.0):
            self._logged = now
            left = remaining(fraction, now - self._started)
            end = "\r" if self._log.isatty() else "\n"
            text = f"{run} {message}".strip()
            line = f"{self._job.paper} {fraction:4.0%}  {duration(left)} left  {text}"
            print(f"{line:<100.100}" if end == "\r" else line, end=end, file=self._log, flush=True)

    def close(self) -> None:
        """Take the file away: the job has ended."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
            remove_abandoned(self.path.parent)
        if self._log.isatty():
            print(" " * 100, end="\r", file=self._log, flush=True)


@dataclass(frozen=True)
class Watched:
    """A job in flight, as its progress file tells; `id` is its `job_name`."""

    id: str
    fraction: float
    seconds: float
    run: str


def job_name(paper: str, experiment: str, id: str) -> str:
    """What tells a job from every other one of its scale: the runs of two papers may have the same names."""
    return f"{paper}/{experiment}-{id}"


def in_flight(results: Path, scale: str) -> list[Watched]:
    """The jobs of a scale that run now, on this machine or on nodes that share the results folder."""
    found = []
    for path in published(results / ".progress" / scale, "*/*.json"):
        with suppress(OSError, KeyError, TypeError, ValueError, AttributeError):  # a file of another version
            content, status = peek_json(path), status_of(path)
            if content is not None and status is not None and _runs(content, status.st_mtime):
                told = float(content["fraction"]), float(content["seconds"]), str(content["run"])
                found.append(Watched(job_name(path.parent.name, *path.stem.rsplit("-", 1)), *told))
    return found


def _runs(content: dict[str, Any], written: float) -> bool:
    """Whether the process lives; of one on another machine its last sign of life tells."""
    if content.get("host", socket.gethostname()) != socket.gethostname():
        return time.time() - written < SILENT_SECONDS
    return lives(content["pid"])


def lives(pid: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _zombie(pid)


def _zombie(pid: int) -> bool:
    """Whether a process has ended and nobody has collected its exit code, as in a container without an init."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):  # gone meanwhile, an older kernel, another system
        return False
    try:
        return bool(select.select([descriptor], [], [], 0)[0])
    finally:
        os.close(descriptor)


def remaining(fraction: float, seconds: float) -> float | None:
    """Seconds left by the rate so far; None before there is one."""
    return seconds * (1 - fraction) / fraction if fraction > 0.01 else None


def duration(seconds: float | None) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`, or `…` where nothing is known."""
    if seconds is None:
        return "…"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def several(number: int, thing: str) -> str:
    """A number of things: "1 job", "2 jobs"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
