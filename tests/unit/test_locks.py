"""Locks between processes, with and without a file system that knows them."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common import locks
from common.locks import Taken, lock

HOLD = """
import sys, pathlib
from common import locks
if sys.argv[2] == "files":
    def refuse(descriptor, how):
        raise OSError(38, "no locks")
    locks.fcntl.flock = refuse
with locks.lock(pathlib.Path(sys.argv[1]), shared=sys.argv[3] == "shared"):
    print("held", flush=True)
    sys.stdin.read()
"""

Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(params=["kernel", "files"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where locks are kept; "files" is a file system without any."""
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.01)
    if request.param == "files":

        def refuse(descriptor: int, how: int) -> None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

        monkeypatch.setattr(fcntl, "flock", refuse)
    return str(request.param)


@pytest.fixture
def hold(tmp_path: Path, kind: str) -> Hold:
    def start(*how: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", HOLD, str(tmp_path / "it.lock"), kind, *(how or ("alone",))]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    return start


def test_one_alone_or_many_together(tmp_path: Path, hold: Hold) -> None:
    path = tmp_path / "it.lock"
    other = hold("shared")
    with lock(path, shared=True), lock(path, shared=True):
        pass
    with pytest.raises(Taken), lock(path):
        pass
    other.communicate("")
    with lock(path), pytest.raises(Taken), lock(path, shared=True):
        pass
    with lock(path):
        pass


def test_a_lock_goes_with_its_holder_however_it_ends(tmp_path: Path, hold: Hold) -> None:
    for how in ("alone", "shared"):
        other = hold(how)
        with pytest.raises(Taken), lock(tmp_path / "it.lock"):
            pass
        other.kill()
        other.communicate()
        with lock(tmp_path / "it.lock"):
            pass


def test_those_who_share_never_stand_in_each_others_way(tmp_path: Path, kind: str) -> None:
    def share(number: int) -> int:
        for _ in range(50):
            with lock(tmp_path / "it.lock", shared=True):
                pass
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(share, range(4))) == [0, 1, 2, 3]


def test_waiting_ends_when_the_lock_is_free_or_the_time_is_over(tmp_path: Path, hold: Hold) -> None:
    other = hold()
    left = iter([1.0, 1.0, 0.0])
    with pytest.raises(Taken), lock(tmp_path / "it.lock", seconds_left=lambda: next(left)):
        pass

    def patience() -> float:
        other.communicate("")
        return 1.0

    with lock(tmp_path / "it.lock", seconds_left=patience):
        pass


@pytest.mark.parametrize("kind", ["files"], indirect=True)
def test_a_file_system_without_locks_is_said_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locks, "_warned", False)
    for _ in range(2):
        with lock(tmp_path / "it.lock"):
            pass
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said == f"replicate: the file system of {tmp_path} keeps no locks; files beside it.lock take their place.\n"


def test_another_error_of_the_lock_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), lock(tmp_path / "it.lock"):
        pass
