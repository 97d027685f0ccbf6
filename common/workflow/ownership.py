"""Who owns what in a build: the lock of a checkout, and processes that end with those that started them.

`make reports` starts `replicate reports`, that starts Snakemake, that a shell for each step, and that the step: a job,
an analysis, a page. Each learns from the environment who its owners are and watches them; when one is gone, however it
ended, a step sends itself SIGTERM, at which a job saves its checkpoint and ends. As long as a step lives it holds
`results/.steps.lock`, and no other build begins.
"""

import atexit
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from common.errors import UserError
from common.files import as_json, peek_json
from common.locks import Taken, lock
from common.signals import answering
from common.workflow.progress import lives

MAKE = "REPLICATIONS_MAKE"
"""Names the process of make that started `replicate reports`."""
BUILD = "REPLICATIONS_BUILD"
"""Names the process of `replicate reports` that started Snakemake."""
WORKFLOW = "REPLICATIONS_WORKFLOW"
"""Names the process of Snakemake that started a step."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a build to end; SIGHUP comes when its terminal closes."""
ENDED = 143
"""Exit code of a step that was asked to end, as of a process that SIGTERM ended."""
LOOK_SECONDS = 1.0
"""Between two looks at owners, where the system does not tell that they have ended."""


class AtWork(UserError):
    """Another build holds the checkout; says which."""


# The lock of a checkout


@contextmanager
def checkout(results: Path, wait: Callable[[str], bool]) -> Iterator[None]:
    """Hold a checkout for one build, from which on nothing of an earlier one lives.

    Args:
        wait: called with a sentence that says who is at work; whether to wait for it.

    Raises:
        AtWork: another build is at work, or jobs of one still save their checkpoints.
    """
    owner = results / ".lock"
    with ExitStack() as held:
        descriptor = _patiently(held, owner, wait, lambda: f"{_who(owner)} is at work in this checkout")
        with ExitStack() as steps:
            _patiently(steps, _steps(results), wait, lambda: f"what {_who(owner)} started still ends in this checkout")
        _sign(descriptor)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)


def _patiently(held: ExitStack, path: Path, wait: Callable[[str], bool], clause: Callable[[], str]) -> int:
    try:
        return held.enter_context(lock(path))
    except Taken:
        sentence = f"{clause()}; wait for it (--wait, make reports WAIT=1) or stop it."
        if not wait(sentence):
            raise AtWork(sentence) from None
    return held.enter_context(lock(path, seconds_left=lambda: math.inf))


def wait_for_steps(results: Path) -> None:
    """Return when no step of a build lives; its owner is gone or has been asked to end, so each will."""
    with suppress(Taken), lock(_steps(results)):
        return
    print("Waiting for jobs to save their checkpoints.", file=sys.stderr, flush=True)
    with lock(_steps(results), seconds_left=lambda: math.inf):
        return


def _steps(results: Path) -> Path:
    return results / ".steps.lock"


def _sign(descriptor: int) -> None:
    """Write into the lock's file who holds it."""
    now = datetime.now(UTC)
    command = " ".join(["snakemake" if "snakemake" in sys.argv[0] else "replicate", *sys.argv[1:]])
    who = {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": f"{now:%Y-%m-%d %H:%M} UTC"}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, as_json(who).encode(), 0)


def _who(path: Path) -> str:
    """The holder of a checkout in words, as it signed."""
    try:
        who = peek_json(path)
        return f"`{who['command']}` (process {who['pid']} on {who['host']}, since {who['since']})"
    except (OSError, TypeError, KeyError):  # it has not signed yet, or differently
        return "another `make reports`"


# Owners


def owners(environment: MutableMapping[str, str], *names: str) -> list[int]:
    """The processes that the environment names as owners of this one."""
    return [int(environment[name]) for name in names if environment.get(name, "").isdigit()]


def attend(results: Path) -> None:
    """Called first in a step: hold the checkout until this process ends, which it does when an owner has.

    Where no workflow on this machine started the step (a job on a cluster's node), nothing.
    """
    watched = owners(os.environ, BUILD, WORKFLOW)
    if not watched:
        return
    held = ExitStack()
    try:
        if not all(map(lives, watched)):
            raise Taken
        held.enter_context(lock(_steps(results), shared=True))
    except Taken:  # by a new build, which begins when the owners of this step are gone
        raise SystemExit(ENDED) from None
    atexit.register(held.close)
    end_with(watched, parent=os.getppid())


def attended() -> bool:
    """Whether this process is a step of a workflow on this machine."""
    return bool(owners(os.environ, WORKFLOW))


def end_self() -> None:
    """Ask this process to end."""
    os.kill(os.getpid(), signal.SIGTERM)


def end_with(watched: list[int], parent: int | None = None, end: Callable[[], None] = end_self) -> None:
    """Call `end` as soon as one of the processes has ended, or `parent` is the parent of this one no more."""

    def watch() -> None:
        wait_for_one(watched, lambda: parent is not None and os.getppid() != parent)
        end()

    if watched:
        threading.Thread(target=watch, daemon=True).start()


def wait_for_one(watched: list[int], otherwise: Callable[[], bool] = lambda: False) -> None:
    """Return when one of the processes has ended (though nobody has collected its exit code), or `otherwise`."""
    with ExitStack() as opened:
        poll, unseen = select.poll(), []
        for pid in watched:
            try:
                descriptor = os.pidfd_open(pid)
                opened.callback(os.close, descriptor)
                poll.register(descriptor, select.POLLIN)
            except ProcessLookupError:
                return
            except (OSError, AttributeError):  # an older kernel, another system
                unseen.append(pid)
        while not otherwise() and all(map(lives, unseen)):
            if poll.poll(1000 * LOOK_SECONDS):
                return


# In Snakemake


def adopt_workflow(environment: MutableMapping[str, str], results: Path, main: bool) -> None:
    """Called when the Snakefile is read: a Snakemake that `replicate reports` started ends with it.

    Names of owners that the environment brought to another node mean nothing there, and are forgotten.

    Args:
        main: whether this Snakemake schedules the workflow, and does not execute a job of another one.

    Raises:
        UserError: the process that started it is gone already.
    """
    environment.pop(WORKFLOW, None)
    stated = environment.get(BUILD)
    if not main or stated is None:
        environment.pop(BUILD, None)
    elif stated != str(os.getppid()):
        raise UserError("the build that started this workflow has ended.")
    else:
        attend(results)


def begin_workflow(environment: MutableMapping[str, str], results: Path, here: bool) -> None:
    """Called before Snakemake begins its first step: from now on it owns steps.

    Args:
        here: whether steps run on this machine; on a cluster they go on without it (docs/cluster.md).

    Raises:
        UserError: nobody holds the checkout for it, and another build is at work there.
    """
    environment[WORKFLOW] = str(os.getpid())
    builds = owners(environment, BUILD)
    if not here:
        end_with(builds, end=lambda: os._exit(ENDED))
        return
    end_steps_with_workflow()
    if not builds:
        held = ExitStack()
        held.enter_context(checkout(results, lambda sentence: False))
        atexit.register(held.close)


# Signals


@contextmanager
def passing_on(end: Callable[[int], None]) -> Iterator[list[int]]:
    """Have the signals that ask a build to end call `end`; yields the list of those that came.

    A signal that was ignored when this process started (SIGHUP under nohup) stays so.
    """
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not came:
            with suppress(OSError):
                os.write(2, b"\nEnding: jobs save their checkpoints; the same command continues.\n")
        came.append(number)
        end(number)

    with answering(ENDING, handle):
        yield came


def end_steps_with_workflow() -> None:
    """In Snakemake: a signal that asks it to end has it begin no step any more, and ends those that run.

    Its own handler of SIGTERM does the first alone.
    """
    begin_none: Any = signal.getsignal(signal.SIGTERM)
    asking = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if callable(begin_none):
            begin_none(number, frame)
        if not asking.is_set():
            asking.set()
            threading.Thread(target=_end_children, daemon=True).start()

    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handle)


def _end_children() -> None:
    """Ask again and again: a step that is just being started may miss the first time."""
    import psutil  # comes with Snakemake

    while True:
        with suppress(psutil.Error):
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    process.terminate()
        time.sleep(LOOK_SECONDS)
