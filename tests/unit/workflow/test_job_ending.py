"""A job that is asked to end: it saves, and neither marker nor exit code says that it is done."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from common.experiments.context import Clock
from common.experiments.outcomes import Outcome, Status
from common.experiments.process import stopping_at_checkpoints
from common.workflow import job as steps
from common.workflow.ownership import ENDED, WORKFLOW
from tests.conftest import Project, program


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_a_job_at_its_next_checkpoint(number: int) -> None:
    clock = Clock()
    before = signal.signal(number, signal.default_int_handler)
    try:
        with stopping_at_checkpoints(clock):
            os.kill(os.getpid(), number)
            assert clock.left() == 0
        assert signal.getsignal(number) == signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_a_closed_terminal_does_not_end_what_was_started_with_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        clock = Clock()
        with stopping_at_checkpoints(clock):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not clock.stop_requested
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("status", "asked", "here", "attempt", "code"),
    [
        ("unfinished", True, True, 1, ENDED),  # the workflow ends, too; nothing may follow from what is not done
        ("unfinished", False, True, 1, 0),  # its time is over: the last attempt leaves its marker
        ("completed", True, True, 1, 0),
        ("failed", False, True, 1, 0),
        ("unfinished", True, False, 3, 0),  # on a cluster's node the last attempt leaves its marker
        ("unfinished", True, False, 2, 3),
    ],
)
def test_unfinished_is_no_success_where_somebody_asked_to_end(
    in_process: Project,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    asked: bool,
    here: bool,
    attempt: int,
    code: int,
) -> None:
    def execute(
        folders: Any, replication: Any, job: Any, clock: Clock, *rest: Any, **more: Any
    ) -> Mapping[str, Outcome]:
        clock.stop_requested = asked
        return {"descent/seed=0": Outcome(status, "why")}  # type: ignore[arg-type]

    monkeypatch.setattr(steps, "execute", execute)
    monkeypatch.delenv(WORKFLOW, raising=False)
    if here:
        monkeypatch.setenv(WORKFLOW, str(os.getppid()))
    job = in_process.replication().jobs("smoke")[0]
    marker = str(in_process.folders.results / job.marker)
    assert steps.job_step(in_process.folders, marker, "smoke", steps.Attempt(attempt, 1 if here else 3), None) == code


@pytest.mark.parametrize(
    ("statuses", "asked", "restarts", "turns", "queued"),
    [
        (("unfinished", "completed"), False, 0, 3, True),
        (("unfinished",), False, 2, 3, False),  # it has had its time
        (("unfinished",), False, 0, 1, False),  # its partition gives it all the time that it wants
        (("unfinished",), True, 0, 3, False),  # preempted: Slurm queues it itself
        (("unfinished", "failed"), False, 0, 3, False),  # an attempt more would find the same
        (("completed",), False, 0, 3, False),
    ],
)
def test_a_job_whose_partition_ends_it_early_is_queued_again_and_keeps_its_attempt(
    in_process: Project,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    statuses: tuple[Status, ...],
    asked: bool,
    restarts: int,
    turns: int,
    queued: bool,
) -> None:
    """An element of an array is named by its array: the number of the array itself stands for all elements."""

    def execute(*_: Any, **__: Any) -> Mapping[str, Outcome]:
        return {f"descent/seed={seed}": Outcome(status, "why") for seed, status in enumerate(statuses)}

    def clock(_: float | None) -> Clock:
        ended = Clock()
        ended.stop_requested = asked
        return ended

    monkeypatch.setattr(steps, "execute", execute)
    monkeypatch.setattr(steps, "clock_of", clock)
    monkeypatch.setenv("REPLICATIONS_OFFLINE", "1")
    asking = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "4"}
    for name, value in {**asking, "SLURM_RESTART_COUNT": str(restarts)}.items():
        monkeypatch.setenv(name, value)
    program(tmp_path, "scontrol", f'echo "$@" >> {tmp_path}/asked')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    marker = str(in_process.folders.results / in_process.replication().jobs("smoke")[0].marker)

    def step(last: int) -> int:
        return steps.job_step(in_process.folders, marker, "smoke", steps.Attempt(3, last, turns), 1.0)

    assert (tmp_path / "asked").is_file() is False
    codes = step(4), step(3)
    assert (tmp_path / "asked").is_file() is queued
    if queued:
        assert codes == (steps.UNFINISHED, steps.UNFINISHED)
        assert set((tmp_path / "asked").read_text().splitlines()) == {"requeue 7_4"}
        program(tmp_path, "scontrol", "exit 1")  # Slurm refuses: the last attempt leaves its marker
        assert step(3) == 0
    else:
        assert codes[1] == 0


@pytest.mark.parametrize(("attempt", "code"), [(1, 2), (3, 0)])
def test_a_job_that_was_given_a_gpu_which_torch_does_not_see_does_not_compute(
    in_process: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    attempt: int,
    code: int,
) -> None:
    """The last attempt leaves the reason, so that the rest of the paper is analysed."""
    in_process.edit("config.yaml", "    smoke: {minutes: 0.05}\n", "    smoke: {minutes: 0.05, gpus: 1}\n")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("REPLICATIONS_OFFLINE", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    job = in_process.replication().jobs("smoke")[0]
    marker = in_process.folders.results / job.marker

    def step() -> int:
        return steps.job_step(in_process.folders, str(marker), "smoke", steps.Attempt(attempt, 3), None)

    assert step() == code
    told = "the job asked for a GPU, and torch sees none"
    assert told in capsys.readouterr().err
    assert marker.is_file() is (code == 0)
    if marker.is_file():
        assert told in marker.read_text()
    monkeypatch.setenv(steps.WITHOUT_GPU, "1")
    assert step() == 0
    assert "completed" in marker.read_text()
