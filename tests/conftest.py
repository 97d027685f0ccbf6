"""A small checkout in a temporary folder, with the example replication, for tests that run the real thing."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from common.experiments.replication import Replication
from common.workflow.discovery import find
from common.workflow.state import Folders
from tests import warm

# Before torch is imported: tests run side by side, and two workers of many threads each stand in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

PATIENCE = 600.0
"""Seconds that a command may take."""
ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tests" / "example" / "decay"
_BIN = Path(sys.executable).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole pipelines first: short tests fill the end, so that no process waits for another."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


class _Scheduling(LoadFileScheduling):
    """Tests of a file share a process and what fixtures built there; those of one replication are like a file."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return f"{file}[{test.partition('[')[2]}" if Path(file).name == "test_replications.py" else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Scheduling:
    """What xdist distributes tests by."""
    return _Scheduling(config, log)


@dataclass(frozen=True)
class Project:
    """A checkout with its own replications, results and reports."""

    root: Path

    def replicate(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line here."""
        command = [sys.executable, "-m", "common.cli", *arguments]
        if arguments[0] not in warm.COMMANDS or warm.differs(self.environment(**environment)):
            return self.command(*command, **environment)
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            process = warm.start(self.root, arguments, self.environment(**environment), out, err)
            process.join(PATIENCE)
            if process.exitcode is None:
                process.kill()
                raise subprocess.TimeoutExpired(command, PATIENCE, out.read_bytes(), err.read_bytes())
            return subprocess.CompletedProcess(command, process.exitcode, out.read_text(), err.read_text())

    def succeeds(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run `replicate` here, which must end well."""
        done = self.replicate(*arguments, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def snakemake(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Snakemake here."""
        return self.command(sys.executable, "-m", "snakemake", "--cores", "2", *arguments)

    def command(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run a command here."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a command here: one thread, wide terminal, this Python first."""
        path = f"{_BIN}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **more}

    def file(self, name: str) -> Path:
        """A file of the example replication."""
        return self.root / "replications" / "decay" / name

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text, which must be there, in a file of the example replication."""
        text = self.file(name).read_text()
        assert old in text, f"{name} does not hold {old!r}"
        self.file(name).write_text(text.replace(old, new))

    @property
    def folders(self) -> Folders:
        """The folders that are generated here."""
        return Folders(self.root, self.root / "results")

    def replication(self) -> Replication:
        """The example replication as its files stand now; its experiments are imported anew."""
        forget_replications()
        return find(self.root, "decay")

    def git(self, *arguments: str) -> str:
        """What git says here."""
        identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
        done = self.command("git", *identity, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        """Commit all files, in a repository that is made where there is none; the commit."""
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def modified(self) -> dict[str, int]:
        """When each outcome.json below results/ was written, by path."""
        base = self.root / "results"
        return {str(path.relative_to(base)): path.stat().st_mtime_ns for path in base.rglob("outcome.json")}

    def records(self, scale: str = "laptop") -> dict[str, bytes]:
        """Every records.jsonl and artifact below results/<scale>, by path."""
        base = self.root / "results" / scale
        found = [*base.rglob("records.jsonl"), *base.rglob("*.safetensors")]
        return {str(path.relative_to(base)): path.read_bytes() for path in sorted(found)}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A checkout that holds the example replication `decay`."""
    return make_project(tmp_path / "checkout", {"decay": EXAMPLE})


def make_project(root: Path, replications: dict[str, Path]) -> Project:
    """A checkout with copies of the given replication directories."""
    (root / "data").mkdir(parents=True)
    for name, folder in replications.items():
        shutil.copytree(folder, root / "replications" / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "common").symlink_to(ROOT / "common")
    shutil.copytree(ROOT / "profiles", root / "profiles")
    for name in ("Snakefile", "params.yaml", "data/registry.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    return Project(root)


@pytest.fixture
def in_process(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """The example checkout as working directory, its experiments importable in this process."""
    monkeypatch.chdir(project.root)
    monkeypatch.syspath_prepend(str(project.root))
    # Bytecode is taken for current by its source's second and size: tests edit faster than that.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget_replications()
    yield project
    forget_replications()


def program(folder: Path, name: str, script: str) -> Path:
    """A shell script in the place of a program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def forget_replications() -> None:
    """Have the experiments imported anew, as after an edit."""
    import importlib

    for name in [name for name in sys.modules if name == "replications" or name.startswith("replications.")]:
        del sys.modules[name]
    importlib.invalidate_caches()
