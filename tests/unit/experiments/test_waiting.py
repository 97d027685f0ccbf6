"""Two processes want the same runs: one waits, for as long as its own time lasts."""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch

from common import locks
from common.errors import UserError
from common.experiments.call import Conditions
from common.experiments.context import Clock
from common.experiments.execution import execute_job
from common.experiments.outcomes import Outcome
from tests.conftest import Project


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.01)


@contextmanager
def held(project: Project) -> Iterator[None]:
    """The workspace of the first call, as another process holds it."""
    path = Path(project.root, "results/.work/smoke/decay/descent/.learning_rate=0.1,seed=0.lock")
    path.parent.mkdir(parents=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def first_job(project: Project, left: Clock, wait: bool = True) -> dict[str, Outcome]:
    replication = project.replication()
    conditions = Conditions(replication, project.folders.store, torch.device("cpu"), left, wait=wait)
    return execute_job(replication.jobs("smoke")[0], conditions)


class Patience(Clock):
    """Time that lasts for so many looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def left(self) -> float:
        self.looks -= 1
        return float(max(self.looks, 0))


def test_without_waiting_the_second_process_is_refused(in_process: Project) -> None:
    with held(in_process), pytest.raises(UserError, match="being computed by another process"):
        first_job(in_process, Clock(), wait=False)


def test_a_process_whose_time_ends_while_it_waits_is_unfinished(in_process: Project) -> None:
    with held(in_process):
        outcomes = first_job(in_process, Patience(3))
    first = outcomes["descent/learning_rate=0.1,seed=0"]
    assert first.status == "unfinished"
    assert first.reason == "another process computed it until the time ended"
    assert not (in_process.root / "results/smoke/decay").exists()


def test_a_request_to_end_ends_the_waiting(in_process: Project) -> None:
    clock = Clock()
    with held(in_process):
        threading.Timer(0.1, lambda: setattr(clock, "stop_requested", True)).start()
        outcomes = first_job(in_process, clock)
    assert {outcome.status for outcome in outcomes.values()} == {"unfinished", "blocked"}


def test_what_another_process_gives_free_is_computed(in_process: Project) -> None:
    with ExitStack() as other:
        other.enter_context(held(in_process))
        threading.Timer(0.1, other.close).start()
        outcomes = first_job(in_process, Clock())
    assert outcomes["descent/learning_rate=0.1,seed=0"].status == "completed"
