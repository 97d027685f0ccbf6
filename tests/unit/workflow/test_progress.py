"""What is told while jobs run: a live line on a terminal, lines in a log, the status of a run in flight."""

import io
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from common.experiments.grid import Job, Run
from common.experiments.outcomes import Outcome
from common.files import read_json, write_json
from common.workflow.plan import JobPlan
from common.workflow.progress import JobProgress, in_flight
from common.workflow.reports import Work, _watch
from common.workflow.state import Folders
from common.workflow.tables import status_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let time go on by so many seconds at a call."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def job(experiment: str = "descent", seed: int = 0) -> Job:
    return Job("decay", experiment, "laptop", (Run("decay", experiment, "laptop", {"seed": seed}, {}),))


def test_a_log_gets_a_line_every_twenty_seconds_and_a_terminal_one_line_that_changes(
    tmp_path: Path, clock: Callable[[float], None]
) -> None:
    log, terminal = io.StringIO(), Terminal()
    for stream in (log, terminal):
        progress = JobProgress(tmp_path, job(), stream)
        for step in range(1, 61):
            clock(1)
            progress(job().runs[0], step / 120, f"step {step}")
        progress.close()
    lines = log.getvalue().splitlines()
    assert lines == [
        "decay  17%  1 min 40 s left  decay/descent/seed=0 step 20",
        "decay  33%  1 min 20 s left  decay/descent/seed=0 step 40",
        "decay  50%  1 min 00 s left  decay/descent/seed=0 step 60",
    ]
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().count("\r") == 61
    assert list(tmp_path.rglob("*.json")) == []


def test_the_status_of_a_run_in_flight_tells_how_far_it_is(
    tmp_path: Path, clock: Callable[[float], None], capsys: pytest.CaptureFixture[str]
) -> None:
    progress = JobProgress(tmp_path, job())
    clock(60)
    progress(job().runs[0], 0.25)
    rows = [
        {"paper": "decay", "experiment": "descent", "run": "seed=0", "outcome": "missing", "reason": "not run yet"},
        {"paper": "decay", "experiment": "descent", "run": "seed=1", "outcome": "completed", "reason": ""},
    ]
    status_table(rows, "laptop", tmp_path)
    said = capsys.readouterr().out
    assert "running: decay/descent/seed=0: 25%, 3 min 00 s left" in said
    assert "1 of 2 runs done, 0 failed; 1 jobs running." in said
    progress.close()
    assert in_flight(tmp_path, "laptop") == []


def test_a_job_whose_process_is_gone_does_not_run_and_one_elsewhere_runs_as_long_as_it_speaks(tmp_path: Path) -> None:
    progress = JobProgress(tmp_path, job())
    progress(job().runs[0], 0.5)
    content = read_json(progress.path)
    assert len(in_flight(tmp_path, "laptop")) == 1
    write_json(progress.path, {**content, "pid": 2**22 + 1})
    assert in_flight(tmp_path, "laptop") == []
    write_json(progress.path, {**content, "host": f"not-{socket.gethostname()}", "pid": 2**22 + 1})
    assert len(in_flight(tmp_path, "laptop")) == 1
    long_ago = time.time() - 3600
    os.utime(progress.path, (long_ago, long_ago))
    assert in_flight(tmp_path, "laptop") == []


def planned(one: Job) -> JobPlan:
    """The plan of a job with one run, which takes a minute."""
    return JobPlan(one.paper, one.experiment, one.id, 1, 0, 1.0)


class Workflow:
    """A process that lets one thing happen whenever it is looked at, and then ends."""

    returncode = 0

    def __init__(self, *happenings: Callable[[], None]) -> None:
        self._left = list(happenings)

    def poll(self) -> int | None:
        if not self._left:
            return 0
        self._left.pop(0)()
        return None


@pytest.fixture
def two_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Workflow, Folders, list[JobPlan]]:
    """Two jobs: the first begins, gets on and ends, then the second begins and fails."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    folders = Folders(tmp_path, tmp_path / "results")
    jobs = [job("descent"), job("measurement")]
    told = [JobProgress(folders.results, one) for one in jobs]

    def at(number: int, fraction: float) -> Callable[[], None]:
        def happens() -> None:
            told[number]._written = 0.0
            told[number](jobs[number].runs[0], fraction)

        return happens

    def ends(number: int, status: str) -> Callable[[], None]:
        def happens() -> None:
            told[number].close()
            outcome = Outcome(status, "why")  # type: ignore[arg-type]
            folders.store.write_marker(jobs[number], {"run": outcome}, 1.0)

        return happens

    def nothing() -> None:
        return

    first = (nothing, nothing, at(0, 0.1), at(0, 0.2), at(0, 0.9), ends(0, "completed"))
    second = (nothing, at(1, 0.5), ends(1, "failed"), nothing)
    return Workflow(*first, *second), folders, [planned(one) for one in jobs]


def test_in_a_log_there_is_a_line_for_each_change_and_for_nothing_else(
    two_jobs: tuple[Workflow, Folders, list[JobPlan]], capsys: pytest.CaptureFixture[str]
) -> None:
    workflow, folders, plans = two_jobs
    assert _watch(workflow, Work(folders, "laptop", 2, plans)) == 0  # type: ignore[arg-type]
    counts = [line.split(" gone, ")[1].split(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == [
        "0 of 2 jobs done, 0 running, 0 failed",
        "0 of 2 jobs done, 1 running, 0 failed",
        "1 of 2 jobs done, 0 running, 0 failed",
        "1 of 2 jobs done, 1 running, 0 failed",
        "2 of 2 jobs done, 0 running, 1 failed",
    ]


def test_on_a_terminal_a_bar_tells_jobs_done_running_and_failed(
    two_jobs: tuple[Workflow, Folders, list[JobPlan]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    workflow, folders, plans = two_jobs
    assert _watch(workflow, Work(folders, "laptop", 2, plans)) == 0  # type: ignore[arg-type]
    said = capsys.readouterr().out
    assert "100 %" in said
    assert "2 of 2 jobs done, 0 running, 1 failed" in said
    assert " gone, " not in said
