"""Where there can be no trial cluster, one sentence says why, and nothing is started."""

import os
from pathlib import Path

import pytest

from tests.cluster import slurm
from tests.cluster.slurm import PROGRAMS, Cluster, Unavailable
from tests.conftest import program


def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, *, user: int = 0, **programs: str) -> Cluster:
    """A machine that has these programs alone, whatever is installed where the test runs."""
    for name, script in programs.items():
        program(folder, name.replace("_", "-"), script)
    monkeypatch.setenv("PATH", os.fspath(folder))
    monkeypatch.setattr(slurm, "DAEMON_FOLDERS", ())
    monkeypatch.setattr(os, "geteuid", lambda: user)
    return Cluster(folder / "cluster")


def refusal(cluster: Cluster) -> str:
    with pytest.raises(Unavailable) as refused:
        cluster.up()
    assert not cluster.folder.exists()
    return str(refused.value)


def test_a_user_who_is_not_root_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs root" in refusal(machine(tmp_path, monkeypatch, user=1000))


def test_a_machine_without_apt_is_told_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = dict.fromkeys(PROGRAMS[1:], "exit 0")
    assert refusal(machine(tmp_path, monkeypatch, **programs)).startswith("Slurm is not installed (slurmctld,")


def test_packages_that_cannot_be_had_are_named_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = machine(tmp_path, monkeypatch, apt_get="echo 'E: Unable to locate package slurm-wlm' >&2; exit 100")
    assert refusal(cluster) == ("apt-get could not install slurm-wlm munge: E: Unable to locate package slurm-wlm")
