"""What `replicate reports` does beside Snakemake: the display decides nothing, logs may hold anything."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from common.experiments.outcomes import Outcome
from common.files import write_json
from common.workflow import ownership, reports
from common.workflow.plan import tasks
from common.workflow.progress import JobProgress, in_flight
from common.workflow.reports import Work, _errors, _show, _waits, _watch
from common.workflow.schedule import makespan
from common.workflow.state import Folders
from tests.conftest import Project
from tests.unit.workflow.test_progress import Terminal, Workflow, job, planned


def test_what_goes_wrong_in_showing_progress_is_one_line_and_ends_nothing(
    tmp_path: Path,
    owner: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("the bar fell down\nand more")

    monkeypatch.setattr(reports, "in_flight", broken)
    _show(owner, Work(Folders(tmp_path, tmp_path / "results"), "laptop", 2, [planned(job())]))
    assert owner.poll() is None
    said = capsys.readouterr().err
    assert said == "replicate: progress cannot be shown (the bar fell down); the build goes on.\n"


@pytest.mark.parametrize("offset", [-7200.0, 0.0, 7200.0])
def test_a_job_counts_as_done_whatever_the_clock_of_the_file_server_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], offset: float
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    folders = Folders(tmp_path, tmp_path / "results")
    marker = folders.results / job().marker

    def writes(status: str) -> None:
        folders.store.write_marker(job(), {"run": Outcome(status, "why")}, 1.0)  # type: ignore[arg-type]
        os.utime(marker, (time.time() + offset,) * 2)

    writes("completed")  # of an earlier build
    happenings = (lambda: None, lambda: writes("unfinished"), lambda: None, lambda: writes("completed"))
    _watch(Workflow(*happenings), Work(folders, "laptop", 2, [planned(job())]))  # type: ignore[arg-type]
    counts = [line.split(" gone, ")[1].split(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts == ["0 of 1 jobs done", "1 of 1 jobs done"]


def test_a_progress_file_that_is_empty_half_there_or_of_another_version_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / ".progress" / "laptop" / "decay"
    folder.mkdir(parents=True)
    contents = {"empty": "", "half": '{"fraction": 0.1, "sec', "list": "[1]", "other": '{"pid": "x"}'}
    for name, content in contents.items():
        (folder / f"descent-{name}.json").write_text(content)
    write_json(folder / "descent-new.json", {"fraction": None, "seconds": 1, "run": "x", "pid": 1, "host": "elsewhere"})
    assert in_flight(tmp_path, "laptop") == []


def test_a_byte_in_a_log_that_is_no_text_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "snakemake.log"
    log.write_bytes(b"caf\xe9\n    log: logs/job.log (check log file(s) for error details)\n")
    (tmp_path / "logs" / "job.log").write_bytes(b"Attempt 1 of 1\n\xff\xfe\nreplicate: no room\n")
    assert _errors(tmp_path, log) == ["replicate: no room"]


@pytest.mark.parametrize(("answer", "waits"), [("", True), ("y", True), ("Yes", True), ("n", False), (None, False)])
def test_on_a_terminal_its_user_is_asked_whether_to_wait(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, waits: bool
) -> None:
    def asked(question: str) -> str:
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr("builtins.input", asked)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert _waits("somebody is at work", wait=False) is waits


def test_without_a_terminal_only_the_option_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert _waits("somebody is at work", wait=False) is False
    assert _waits("somebody is at work", wait=True) is True
    assert capsys.readouterr().out == "Waiting: somebody is at work\n"


def test_jobs_of_two_papers_whose_runs_have_the_same_names_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    folders = Folders(tmp_path, tmp_path / "results")
    jobs = [replace(job(), paper=paper) for paper in ("decay", "growth")]
    plans = [planned(one) for one in jobs]
    assert plans[0].id == plans[1].id
    assert makespan(tasks(plans), 1) > 120.0

    def ends() -> None:
        folders.store.write_marker(jobs[0], {"run": Outcome("completed", "")}, 1.0)
        JobProgress(folders.results, jobs[1])(jobs[1].runs[0], 0.5)

    _watch(Workflow(lambda: None, ends), Work(folders, "laptop", 2, plans))  # type: ignore[arg-type]
    counts = [line.split(" gone, ")[1].split(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert counts[-1] == "1 of 2 jobs done, 1 running, 0 failed"


def test_a_build_that_waits_for_another_ends_with_its_make(project: Project, owner: "subprocess.Popen[bytes]") -> None:
    command = [sys.executable, "-m", "common.cli", "reports", "--scale", "smoke", "--wait"]
    environment = project.environment(**{ownership.MAKE: str(owner.pid)})
    with ownership.checkout(project.root / "results", lambda sentence: False):
        build = subprocess.Popen(command, cwd=project.root, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert build.stdout is not None
            assert build.stdout.readline().startswith("Waiting: ")
            owner.kill()
            assert build.wait(30) == -signal.SIGTERM
        finally:
            build.kill()
            build.communicate()
