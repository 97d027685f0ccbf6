"""What `make` does beside preparing the environment, on programs that only say that they were called."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, program

PREPARED = ("pyproject.toml", *(path.name for path in ROOT.glob("requirements*")))
TOOLS = ("ruff", "mypy", "snakefmt", "replicate", "pytest")


def made(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`make` in a folder whose environment is ready and whose tools fail."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    for name in (*PREPARED, ".venv/.uv", ".venv/.ready", ".venv/.test"):
        (folder / name).touch()
    for tool in TOOLS:
        program(folder / ".venv" / "bin", tool, f'echo "called: {tool} $*"; exit 1')
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True)


def test_every_check_says_what_it_finds_although_others_fail(tmp_path: Path) -> None:
    done = made(tmp_path, "check")
    assert done.returncode
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("called: "))
    assert [line.split()[1] for line in said] == ["mypy", "replicate", "ruff", "ruff", "snakefmt"]


@pytest.mark.parametrize("tests", ["tests/unit/replications/a", "tests/a tests/b"])
def test_named_tests_run_alone_in_the_environment_that_has_pytest(tests: str, tmp_path: Path) -> None:
    done = made(tmp_path, "test", f"TESTS={tests}")
    assert [line for line in done.stdout.splitlines() if line.startswith("called: ")] == [f"called: pytest -n0 {tests}"]
