"""One cluster for all tests here, and checkouts whose runs wait in the middle until a test lets them go on."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from common.workflow.discovery import find
from tests.cluster.accounting import PROGRAMS
from tests.cluster.slurm import Cluster, Unavailable, wait_for
from tests.conftest import EXAMPLE, ROOT, Project, make_project

PATIENCE = 900.0
"""Seconds to wait for one event: a machine that does other things, too, is slow; nothing is proved by the clock."""

POLLING = ("--slurm-init-seconds-before-status-checks", "3", "--seconds-between-status-checks", "3")

HOLD = """\
        import os, pathlib
        while state["step"] >= runs[0].steps // 2 and not pathlib.Path("gate").exists():
            pathlib.Path("held").mkdir(exist_ok=True)
            pathlib.Path(f"{os.getpid()}.held").write_text(context.name)
            os.replace(f"{os.getpid()}.held", f"held/{os.getpid()}")
            time.sleep(0.2)
            context.checkpoint(state)
"""
"""Wait in the middle of a run, resumable (a step further each time), until the file `gate` appears."""

COUNT = """\
    if state is None:
        with open("fresh", "a") as fresh:
            fresh.writelines(f"{context.run_of(run)}\\n" for run in runs)
    if state is None:
"""
"""Note each run that begins from nothing."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once why tests were skipped."""
    reasons = {report.longrepr[2] for report in terminalreporter.getreports("skipped")}
    for reason in sorted(reasons):
        terminalreporter.write_line(reason)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes with a pretended GPU each; skipped with the reason where there can be none."""
    yield from _while_up(Cluster(tmp_path_factory.mktemp("slurm"), nodes=2, most_elements=4))


@pytest.fixture(scope="session")
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same with accounts and their limits; skipped where slurmdbd and MariaDB are not installed."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing:
        pytest.skip(f"No accounts here: {', '.join(missing)} not installed.")
    yield from _while_up(Cluster(tmp_path_factory.mktemp("accounted"), nodes=2, accounting=True))


def _while_up(cluster: Cluster) -> Iterator[Cluster]:
    try:
        cluster.up()
    except Unavailable as reason:
        pytest.skip(f"No Slurm here: {reason}")
    yield cluster
    cluster.down()
    left = cluster.processes()
    assert not left, f"processes that the cluster left: {left}"


@dataclass(frozen=True)
class Held:
    """A process that computes runs on the cluster and waits in their middle."""

    pid: int
    run: str
    job: str
    node: str


class Checkout:
    """A checkout whose `descent` waits in the middle, and the Snakemake that submits it."""

    def __init__(self, root: Path, cluster: Cluster, *, resources: str, hold: bool = True) -> None:
        self.cluster = cluster
        self.project = make_project(root, {"decay": EXAMPLE})
        self.root = root
        shutil.copytree(ROOT / "slurm", root / "slurm")
        self.project.edit("config.yaml", "[0.1, 0.5, 3.0]", "[0.1, 0.25, 0.5, 3.0]")
        end = "\nmeasurement"
        self.project.edit("config.yaml", f"    laptop: {{minutes: 0.6}}{end}", f"    laptop: {resources}{end}")
        self.project.edit("descent.py", "    if state is None:\n", COUNT)
        if hold:
            self.project.edit("descent.py", "        time.sleep(runs[0].pause)\n", HOLD)
        self._processes: list[subprocess.Popen[bytes]] = []

    def marker(self, experiment: str, paper: str = "decay") -> str:
        """The marker of the one job of an experiment."""
        (job,) = [job for job in find(self.root, paper).jobs("laptop") if job.experiment == experiment]
        return f"results/{job.marker.as_posix()}"

    def set_in_profile(self, old: str, new: str, file: str = "config.yaml") -> None:
        """Replace text, which must be there, in a file of the profile."""
        path = self.root / "slurm" / file
        text = path.read_text()
        assert old in text, f"slurm/{file} does not hold {old!r}"
        path.write_text(text.replace(old, new))

    @property
    def environment(self) -> dict[str, str]:
        """Of commands here: this cluster, frequent checkpoints."""
        more = {**self.cluster.environment, "REPLICATIONS_CHECKPOINT_SECONDS": "0.5"}
        return self.project.environment(**more)

    def submit(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start `snakemake --profile slurm` with faster polling; its output goes to `submit.log`."""
        command = [sys.executable, "-m", "snakemake", "--profile", "slurm", *POLLING, "--config", "scale=laptop"]
        with (self.root / "submit.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                cwd=self.root,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    @property
    def log(self) -> str:
        """What the submitting Snakemake said."""
        return (self.root / "submit.log").read_text()

    def close(self) -> None:
        """End what this checkout started."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.cluster.run("scancel", "--user", "root", check=False)
        wait_for(lambda: not self.cluster.run("squeue", "-h").strip(), PATIENCE, "the queue to be empty")

    def held(self) -> dict[str, Held]:
        """The processes that wait now, by the array element or job that they belong to."""
        found = {}
        for path in (self.root / "held").glob("*"):
            pid = int(path.name)
            try:
                environment = psutil.Process(pid).environ()
            except psutil.Error:
                continue
            array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
            job = f"{array}_{task}" if array else environment.get("SLURM_JOB_ID", "")
            if job:
                found[job] = Held(pid, path.read_text(), job, environment.get("SLURMD_NODENAME", ""))
        return found

    def open_gate(self) -> None:
        """Let all runs go on."""
        (self.root / "gate").touch()

    def state(self, job: str) -> str:
        """Slurm's word for a job's state."""
        return self.cluster.run("squeue", "-h", "--states=all", "-j", job, "-o", "%T", check=False).strip()

    def fresh_starts(self) -> list[str]:
        """Every run each time that it began from nothing."""
        path = self.root / "fresh"
        return path.read_text().splitlines() if path.is_file() else []

    def segments(self, run: str) -> int:
        """In how many pieces a run was computed."""
        text = (self.root / "results" / "laptop" / run / "provenance.json").read_text()
        found = re.search(r'"segments": (\d+)', text)
        assert found
        return int(found.group(1))

    def verdicts(self, paper: str = "decay") -> str:
        """verdicts.json, as it stands."""
        return (self.root / "analysis" / "laptop" / paper / "verdicts.json").read_text()


def undisturbed(root: Path, cluster: Cluster, resources: str) -> Project:
    """The same replication computed here in one go, without a cluster, and analysed."""
    checkout = Checkout(root, cluster, resources=resources)
    checkout.open_gate()
    for command in (["run", "decay", "--scale", "laptop"], ["step", "analyse", "decay", "laptop"]):
        checkout.project.succeeds(*command)
    return checkout.project
