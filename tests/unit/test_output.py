"""Output that cannot fail: the exit code speaks of the work, not of who listened."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Project

WORK = """
from common.output import unfailing
unfailing()
for number in range(3000):
    print("step", number, flush=True)
print("done \\u2026", flush=True)
open("finished", "w").close()
"""


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def run(tmp_path: Path, out: int, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-c", WORK],
        cwd=tmp_path,
        stdout=out,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=60,
    )


@pytest.mark.parametrize("place", [os.pipe, os.openpty])
def test_work_whose_reader_or_terminal_is_gone_goes_on_says_so_once_and_ends_well(
    tmp_path: Path, place: Callable[[], tuple[int, int]]
) -> None:
    reader, out = place()
    os.close(reader)
    done = run(tmp_path, out)
    os.close(out)
    assert done.returncode == 0
    problem = {os.pipe: b"Broken pipe", os.openpty: b"Input/output error"}[place]
    assert done.stderr == b"replicate: nothing is shown any more (%s); the work goes on.\n" % problem
    assert (tmp_path / "finished").exists()


def test_a_full_disk_under_the_output_changes_nothing(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(tmp_path, full.fileno())
    assert done.returncode == 0
    assert (tmp_path / "finished").exists()


def test_a_table_that_the_disk_cannot_hold_is_an_error(project: Project) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "common.cli", "list", "--json"]
        done = subprocess.run(
            command, cwd=project.root, env=project.environment(), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "replicate: [Errno 28] No space left on device\n"


def test_a_character_that_the_terminal_lacks_is_replaced(tmp_path: Path) -> None:
    done = run(tmp_path, subprocess.PIPE, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == b"done ?"


def test_what_has_taken_the_place_of_the_streams_is_left_alone(capsys: object) -> None:
    from common.output import unfailing

    before = sys.stdout, sys.stderr
    unfailing()
    assert (sys.stdout, sys.stderr) == before


def test_texts_are_utf8_whatever_the_locale(project: Project) -> None:
    project.edit("paper.yaml", "title: ", "title: Schrödinger’s ")
    title = "Schrödinger’s"
    done = project.replicate("list", "--json", **ASCII)
    assert done.returncode == 0, done.stderr
    assert title in done.stdout
    project.edit("config.yaml", "descent:", "# naïve\ndescent:")
    planned = project.command(sys.executable, "-m", "snakemake", "--dry-run", "--config", "scale=smoke", **ASCII)
    assert planned.returncode == 0, planned.stdout + planned.stderr
