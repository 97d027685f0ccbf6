"""The lock of a checkout, and processes that end with those that started them."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common import locks
from common.errors import UserError
from common.locks import lock
from common.workflow import ownership
from common.workflow.ownership import BUILD, ENDED, WORKFLOW, checkout
from common.workflow.progress import lives
from tests.conftest import ROOT

Owner = subprocess.Popen[bytes]
Step = Callable[..., "subprocess.Popen[str]"]

STEP = """
import sys, time, pathlib
from common.workflow.ownership import attend
attend(pathlib.Path(sys.argv[1]))
print("at work", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(ownership, "LOOK_SECONDS", 0.01)


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    """Starts a step of the workflow of an owner."""
    started = []

    def start(owner: int, name: str = WORKFLOW) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": str(ROOT), name: str(owner)}
        command = [sys.executable, "-c", STEP, str(tmp_path)]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("name", [BUILD, WORKFLOW])
def test_a_step_ends_when_an_owner_was_killed_and_holds_the_checkout_until_then(
    tmp_path: Path, owner: Owner, step: Step, name: str
) -> None:
    process = step(owner.pid, name)
    assert said(process) == "at work\n"
    with pytest.raises(UserError, match="started still ends in this checkout"), checkout(tmp_path, lambda text: False):
        pass
    owner.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGTERM
    with checkout(tmp_path, lambda text: False):
        pass


def test_a_step_whose_owner_is_gone_already_does_not_begin(owner: Owner, step: Step) -> None:
    owner.kill()
    owner.wait()
    process = step(owner.pid)
    assert said(process) == ""
    assert process.wait(30) == ENDED


def test_a_step_does_not_begin_beside_a_new_build(tmp_path: Path, owner: Owner, step: Step) -> None:
    with lock(tmp_path / ".steps.lock"):
        process = step(owner.pid)
        assert process.wait(30) == ENDED


@pytest.mark.parametrize("told", [True, False])
def test_a_system_that_tells_of_no_process_is_asked_again_and_again(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    if not told:

        def unknown(pid: int) -> int:
            raise OSError(38, "not implemented")

        monkeypatch.setattr(os, "pidfd_open", unknown)
    ends = threading.Timer(0.1, lambda: (owner.kill(), owner.wait()))
    ends.start()
    ownership.wait_for_one([owner.pid])
    ends.join()
    ownership.wait_for_one([os.getpid()], lambda: True)
    assert owner.poll() is not None


def test_who_is_at_work_is_said_in_a_sentence_with_process_host_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/replicate", "reports", "--scale", "laptop"])
    sentences = []

    def refuse(sentence: str) -> bool:
        sentences.append(sentence)
        return False

    with checkout(tmp_path, refuse):
        since = json.loads((tmp_path / ".lock").read_text())["since"]
        with pytest.raises(UserError) as told, checkout(tmp_path, refuse):
            pass
    assert sentences == [str(told.value)]
    assert sentences[0] == (
        f"`replicate reports --scale laptop` (process {os.getpid()} on {socket.gethostname()}, since {since}) is at "
        "work in this checkout; wait for it (--wait, make reports WAIT=1) or stop it."
    )


def test_a_build_that_waits_begins_when_the_other_has_ended(tmp_path: Path) -> None:
    begun = threading.Event()

    def other() -> None:
        with checkout(tmp_path, lambda text: False):
            begun.set()
            time.sleep(0.1)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with checkout(tmp_path, lambda text: True):
        thread.join(5)
        assert not thread.is_alive()


def test_owners_of_another_node_mean_nothing(tmp_path: Path) -> None:
    environment = {BUILD: "1", WORKFLOW: "1"}
    ownership.adopt_workflow(environment, tmp_path, main=False)
    assert environment == {}


def test_a_workflow_whose_build_is_gone_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has ended"):
        ownership.adopt_workflow({BUILD: str(os.getpid())}, tmp_path, main=True)


def test_the_hook_in_which_a_workflow_takes_its_steps_is_replaced_by_no_other() -> None:
    lines = (ROOT / "Snakefile").read_text().splitlines()
    hooks = [number for number, line in enumerate(lines) if line.startswith("onstart:")]
    assert len(hooks) == 1, "of several hooks Snakemake calls the last alone"
    assert "ownership.begin_workflow(" in "\n".join(lines[hooks[0] : hooks[0] + 8])


def test_a_signal_that_was_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ended: list[int] = []
        with ownership.passing_on(ended.append) as came:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert came == ended == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_process_that_ended_lives_no_more_though_nobody_collected_its_exit_code(
    owner: Owner,
) -> None:
    assert lives(owner.pid)
    owner.kill()
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    assert not lives(owner.pid)
