"""A build whose processes are killed, again and again: none lives on, nothing is lost or computed twice at once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import psutil
import pytest

from common.workflow import ownership
from common.workflow.progress import in_flight
from tests.conftest import EXAMPLE, Project, make_project

pytestmark = pytest.mark.slow

ROUNDS = 20
PATIENCE = 120.0
"""Seconds; the machine may be busy."""
TAG = "REPLICATIONS_TEST_BUILD"
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)
KINDS = ("replicate", "snakemake", "shell", "job")
SLOWLY = """
        with open("beats", "a") as beats:
            beats.write(f"{time.time()} {__import__('os').getpid()} {runs[0].learning_rate} {state['step']}\\n")
        until = time.monotonic() + runs[0].pause
        while time.monotonic() < until:
            context.progress(state["step"], runs[0].steps)
            time.sleep(0.01)
"""


def slow_project(root: Path) -> Project:
    """The example whose steps take time, tell their progress without a pause and note when and where they ran."""
    project = make_project(root, {"decay": EXAMPLE})
    project.edit("descent.py", "        time.sleep(runs[0].pause)\n", SLOWLY)
    project.edit("config.yaml", "base: {steps: 40}", "base: {steps: 40, pause: 0.4}")
    return project


@dataclass
class Build:
    """One `replicate reports` and all that it started, known by a mark in their environment."""

    project: Project
    tag: str
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        environment = self.project.environment(
            **{
                TAG: self.tag,
                ownership.MAKE: str(os.getpid()),  # were this test killed, its build would end
                "REPLICATIONS_CHECKPOINT_SECONDS": "0",
                "REPLICATIONS_PROGRESS_SECONDS": "0",
            }
        )
        command = [sys.executable, "-m", "common.cli", "reports", "--scale", "smoke", "--no-pages", "--retry", "failed"]
        self.output = self.project.root / "output.log"
        with self.output.open("a") as stream:
            self.process = subprocess.Popen(
                command, cwd=self.project.root, env=environment, stdout=stream, stderr=stream, text=True
            )

    def alive(self) -> dict[str, psutil.Process]:
        """Its living processes by kind."""
        found = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(TAG) == self.tag and process.status() != psutil.STATUS_ZOMBIE:
                    found[kind(process.cmdline())] = process
        return found

    def wait_until(self, what: str, happens: "Callable[[], object]") -> None:
        until = time.monotonic() + PATIENCE
        while not happens():
            assert time.monotonic() < until, f"{what}: {self.alive()}\n{self.output.read_text()}"
            time.sleep(0.25)  # each look asks every process of the machine


def kind(command: list[str]) -> str:
    """What a process of a build is."""
    if "step" in command:
        return "job" if "job" in command else "step"
    if any("set -euo pipefail" in argument for argument in command):
        return "shell"
    if "snakemake" in command:
        return "snakemake"
    return "replicate" if "reports" in command else " ".join(command[:3])


@pytest.fixture(autouse=True)
def _signals_are_heard() -> Iterator[None]:
    """A process started in the background of a script ignores Ctrl-C, and under nohup SIGHUP, as do its children."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGHUP, signal.SIGTERM)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def reader(project: Project) -> Iterator[list[BaseException]]:
    """Somebody who looks at the progress all the time; yields what went wrong in it."""
    wrong: list[BaseException] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            try:
                in_flight(project.root / "results", "smoke")
            except BaseException as error:
                wrong.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield wrong
    finally:
        ended.set()
        thread.join()


def beats(project: Project) -> list[tuple[float, int, str, int]]:
    """When, by which process, of which setting and which step was computed."""
    path = project.root / "beats"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [(float(when), int(pid), rate, int(step)) for when, pid, rate, step in map(str.split, lines)]


def strike(build: Build, chance: random.Random) -> tuple[str, signal.Signals] | None:
    """Kill a process of the build at some moment; None where it had ended before."""
    so_far = len(beats(build.project))
    if chance.random() < 0.8:
        build.wait_until(
            "a step of an experiment", lambda: len(beats(build.project)) > so_far or build.process.poll() is not None
        )
    time.sleep(chance.uniform(0, 1.0))
    alive = build.alive()
    targets = [one for one in KINDS if one in alive]
    if not targets:
        return None
    target, number = chance.choice(targets), chance.choice(SIGNALS)
    with suppress(psutil.NoSuchProcess):
        alive[target].send_signal(number)
    if target == "shell" and number != signal.SIGKILL:  # it waits for its job, as nobody asked that to end
        time.sleep(0.3)
        with suppress(psutil.NoSuchProcess):
            assert build.process.poll() is None
            build.process.send_signal(signal.SIGTERM)
    return target, number


def test_whatever_is_killed_nothing_lives_on_and_the_next_start_continues(tmp_path: Path) -> None:
    project = slow_project(tmp_path / "checkout")
    chance = random.Random(17)
    struck = []
    with reader(project) as wrong:
        for number in range(ROUNDS):
            build = Build(project, f"{os.getpid()}-{number}")
            what = strike(build, chance)
            struck.append(what)
            build.wait_until(f"round {number} {what}: the end of all processes", lambda build=build: not build.alive())
            build.process.wait(PATIENCE)
        last = Build(project, f"{os.getpid()}-last")
        code = last.process.wait(2 * PATIENCE)
    assert code == 0, last.output.read_text()
    assert wrong == []
    assert "progress cannot be shown" not in last.output.read_text()
    assert len({what for what in struck if what}) >= 8

    undisturbed = make_project(tmp_path / "undisturbed", {"decay": EXAMPLE})
    undisturbed.succeeds("run", "decay", "--scale", "smoke")
    assert project.records("smoke") == undisturbed.records("smoke")

    done = beats(project)
    for rate in {rate for _, _, rate, _ in done}:
        mine = sorted(beat for beat in done if beat[2] == rate)
        processes = [pid for pid, _ in groupby(mine, key=lambda beat: beat[1])]
        assert len(processes) == len(set(processes)), "two processes computed the same runs at once"
        again = len(mine) - len({step for _, _, _, step in mine})
        killed = sum(what is not None and what[1] == signal.SIGKILL and what[0] == "job" for what in struck)
        assert again <= killed, "a job that was asked to end did not save where it was"
