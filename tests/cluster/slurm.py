"""A real Slurm cluster on this machine: emulated nodes with pretended GPUs, on loopback, under one folder.

    python -m tests.cluster.slurm up FOLDER [--nodes 2] [--accounting]    start it, as root; installs what is missing
    python -m tests.cluster.slurm down FOLDER                             stop it; no process is left

It is for tests and for trying `snakemake --profile slurm` before a real cluster is at hand. Partitions: `cpu` (the
default), `gpu`, `spare`, whose jobs are preempted by those of all others, and `urgent`, whose jobs preempt those of all
others. The last node has the feature `large`, the others `small`. Each job has a TMPDIR of its own, as by the prolog of
many sites. Where programs are missing, apt-get installs Debian's slurm-wlm and munge (with accounting also slurmdbd and
mariadb-server).
"""

import argparse
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.cluster import accounting
from tests.system_packages import one_apt

PACKAGES = ("slurm-wlm", "munge")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch")
CPUS, MEMORY_MB = 8, 4000
"""What a node claims to have, whatever this machine has."""
GPU_TYPE = "pretended"
START_SECONDS = 120.0
MARK = "REPLICATIONS_SLURM_FOLDER"
"""In the environment of every daemon and job, so that what a cluster leaves behind is known by it."""
DAEMON_FOLDERS = ("/usr/sbin", "/sbin")
"""Where Debian keeps daemons; the PATH of a user may lack them."""
NODE_MARK = "REPLICATIONS_SLURM_NODE"


class Unavailable(Exception):
    """Why there can be no cluster here; one sentence."""


@dataclass(frozen=True)
class Cluster:
    """A cluster under `folder`; `up` starts what does not run, `down` ends everything."""

    folder: Path
    nodes: int = 2
    cpus: int = CPUS
    accounting: bool = False
    most_elements: int = 1000
    """The largest number that an element of an array may have."""

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to speak to this cluster; its jobs inherit the mark."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), MARK: str(self.folder)}

    def up(self) -> None:
        """Start the daemons and wait until every node is idle.

        Raises:
            Unavailable: not root, Slurm cannot be installed, or it does not start.
        """
        _install(self.accounting)
        for name in ("state", "log", "run", "spool"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "slurm.conf").is_file():
            self._configure()
        self._start_munge()
        if self.accounting:
            accounting.start(self.folder, self.environment, wait_for)
        self.start_controller()
        for number in range(1, self.nodes + 1):
            self.start_node(number)
        try:
            wait_for(lambda: self.idle_nodes() == self.nodes, START_SECONDS, "all nodes to be idle")
        except TimeoutError:
            log = (self.folder / "log" / "slurmctld.log").read_text().splitlines()[-5:]
            self.down()
            raise Unavailable("Slurm did not come up: " + " | ".join(log)) from None

    def down(self) -> None:
        """End jobs and daemons, and every process that came of them."""
        if self.daemon("slurmctld") is not None:
            user = psutil.Process().username()
            self.run("scancel", "--user", user, check=False)
            self.run("scancel", "--full", "--signal=KILL", "--user", user, check=False)
        doomed = self.processes()
        for process in doomed:
            _signal(process, signal.SIGTERM)
        psutil.wait_procs(doomed, timeout=5)
        for process in {*doomed, *self.processes()}:
            _signal(process, signal.SIGKILL)

    def run(self, *command: str, check: bool = True) -> str:
        """The output of a Slurm command."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def idle_nodes(self) -> int:
        """Nodes without a job, ready for one."""
        counts = self.run("sinfo", "-h", "-p", "cpu", "-t", "idle", "-o", "%D", check=False).split()
        return sum(map(int, counts))

    def restarts(self, job: str) -> int:
        """How often Slurm itself has started a job again."""
        found = re.search(r"Restarts=(\d+)", self.run("scontrol", "show", "job", job, check=False))
        return int(found.group(1)) if found else 0

    # Daemons

    def start_controller(self) -> None:
        """Start slurmctld where it does not run."""
        if self.daemon("slurmctld") is None:
            self._daemon("slurmctld", "-f", str(self.folder / "slurm.conf"))

    def start_node(self, number: int) -> None:
        """Start the slurmd of a node where it does not run."""
        if self.daemon(f"slurmd.node{number}") is None:
            self._daemon("slurmd", "-f", str(self.folder / "slurm.conf"), "-N", f"node{number}", node=str(number))

    def kill_controller(self, job: str) -> None:
        """SIGKILL to slurmctld, once it has saved which jobs run: a change of `job` makes it save."""
        controller, saved = self.daemon("slurmctld"), self.folder / "state" / "job_state"
        assert controller is not None
        mark = f"saved-{time.time_ns()}"
        self.run("scontrol", "update", f"jobid={job}", f"comment={mark}")
        wait_for(lambda: saved.is_file() and mark.encode() in saved.read_bytes(), 300, "slurmctld to save its state")
        _signal(controller, signal.SIGKILL)
        wait_for(lambda: self.daemon("slurmctld") is None, 30, "slurmctld to end")

    def kill_node(self, number: int) -> None:
        """SIGKILL to a node's slurmd, its steps and all that they run: the machine is gone."""
        name = f"slurmd.node{number}"
        daemon = self.daemon(name)
        assert daemon is not None
        doomed = [daemon, *(process for process in self.processes() if _is_step_of(process, number))]
        for process in [*doomed, *_below(doomed)]:
            _signal(process, signal.SIGKILL)
        wait_for(lambda: self.daemon(name) is None, 30, f"{name} to end")

    def daemon(self, name: str) -> psutil.Process | None:
        """The process of a daemon, None where it does not run."""
        path = self.folder / "run" / f"{name}.pid"
        try:
            process = psutil.Process(int(path.read_text()))
        except (OSError, ValueError, psutil.Error):
            return None
        alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return process if alive and _environment(process).get(MARK) == str(self.folder) else None

    def processes(self) -> list[psutil.Process]:
        """Every process of this cluster: daemons, steps, and what they started."""
        marked = [one for one in psutil.process_iter() if _environment(one).get(MARK) == str(self.folder)]
        return [process for process in {*marked, *_below(marked)} if process.pid != os.getpid()]

    def _daemon(self, *command: str, node: str = "") -> None:
        environment = {**self.environment, NODE_MARK: node}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Unavailable(f"{command[0]} does not start: {done.stderr.strip().splitlines()[-1:]}")

    def _start_munge(self) -> None:
        if self.daemon("munged") is not None:
            return
        key = self.folder / "munge.key"
        if not key.is_file():
            key.touch(mode=0o600)
            key.write_bytes(secrets.token_bytes(1024))
        run, log = self.folder / "run", self.folder / "log"
        self._daemon(
            "munged",
            "--force",
            f"--socket={self.folder}/munge.socket",
            f"--key-file={key}",
            f"--pid-file={run}/munged.pid",
            f"--log-file={log}/munged.log",
            f"--seed-file={run}/munged.seed",
        )

    def _configure(self) -> None:
        """Write slurm.conf and gres.conf, with ports that are free now."""
        host, ports = socket.gethostname().split(".")[0], _free_ports(self.nodes + 2)
        nodes, gpus = [], []
        for number in range(1, self.nodes + 1):
            (self.folder / "spool" / f"node{number}").mkdir(exist_ok=True)
            device = self.folder / f"gpu{number}"
            if not device.exists():
                _make_null_device(device)
            nodes.append(
                f"NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs={self.cpus} "
                f"RealMemory={MEMORY_MB} Gres=gpu:{GPU_TYPE}:1 State=UNKNOWN"
                + f" Feature={'large' if number == self.nodes else 'small'}"
            )
            gpus.append(f"NodeName=node{number} Name=gpu Type={GPU_TYPE} File={device}")
        if self.accounting:
            accounting.configure(self.folder, ports[-1])
        text = SLURM_CONF.format(
            folder=self.folder,
            host=host,
            port=ports[0],
            nodes="\n".join(nodes),
            n=self.nodes,
            elements=self.most_elements + 1,
            accounting=accounting.slurm_conf_lines(self.folder, ports[-1] if self.accounting else None),
        )
        prolog = self.folder / "task_prolog"
        prolog.write_text(TASK_PROLOG.format(folder=self.folder))
        prolog.chmod(0o755)
        (self.folder / "gres.conf").write_text("\n".join(gpus) + "\n")
        (self.folder / "slurm.conf").write_text(text)


SLURM_CONF = """\
ClusterName=replications
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
KillWait=10
UnkillableStepTimeout=60
MinJobAge=600
ReturnToService=2
MpiDefault=none
MaxArraySize={elements}
TaskProlog={folder}/task_prolog
DefMemPerCPU=500
GresTypes=gpu
{accounting}
{nodes}
PartitionName=spare Nodes=node[1-{n}] MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=cpu Nodes=node[1-{n}] Default=YES MaxTime=INFINITE State=UP PriorityTier=2
PartitionName=gpu Nodes=node[1-{n}] MaxTime=INFINITE State=UP PriorityTier=2
PartitionName=urgent Nodes=node[1-{n}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""

TASK_PROLOG = """\
#!/bin/sh
mkdir -p {folder}/local/$SLURM_JOB_ID
echo "export TMPDIR={folder}/local/$SLURM_JOB_ID"
echo "export REPLICATIONS_WITHOUT_GPU=1"
"""


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until the condition holds.

    Raises:
        TimeoutError: it does not within `seconds`.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.5)


def _install(with_accounting: bool) -> None:
    if os.geteuid() != 0:
        raise Unavailable("a trial cluster needs root: several slurmd on one machine start jobs as any user.")
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join([*known, *(folder for folder in DAEMON_FOLDERS if folder not in known)])
    programs = (*PROGRAMS, *accounting.PROGRAMS) if with_accounting else PROGRAMS
    if all(map(shutil.which, programs)):
        return
    if shutil.which("apt-get") is None:
        raise Unavailable(f"Slurm is not installed ({', '.join(programs)}), and there is no apt-get to install it.")
    packages = (*PACKAGES, *accounting.PACKAGES) if with_accounting else PACKAGES
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with one_apt():
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            done = subprocess.run(["apt-get", "-qq", *command], env=environment, capture_output=True, text=True)
    if not all(map(shutil.which, programs)):
        said = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise Unavailable(f"apt-get could not install {' '.join(packages)}: {said}")


def _make_null_device(path: Path) -> None:
    """A second /dev/null, which stands for a GPU."""
    try:
        os.mknod(path, 0o020666, os.makedev(1, 3))
    except PermissionError:
        raise Unavailable("this machine lets nobody make a device, which pretends to be a GPU.") from None


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}


def _is_step_of(process: psutil.Process, node: int) -> bool:
    """Whether a process is a slurmstepd of a node."""
    with suppress(psutil.Error):
        return process.name().startswith("slurmstepd") and _environment(process).get(NODE_MARK) == str(node)
    return False


def _below(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """What they started, and what that started."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            found += process.children(recursive=True)
    return found


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def main() -> None:
    parser = argparse.ArgumentParser(description="A Slurm cluster on this machine, to try the workflow on.")
    parser.add_argument("action", choices=["up", "down"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--accounting", action="store_true", help="with slurmdbd, so that sacct answers")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.folder.resolve(), arguments.nodes, accounting=arguments.accounting)
    try:
        cluster.up() if arguments.action == "up" else cluster.down()
    except Unavailable as reason:
        sys.exit(str(reason))
    if arguments.action == "up":
        print(cluster.run("sinfo"), end="")
        print(f"export SLURM_CONF={cluster.folder}/slurm.conf")


if __name__ == "__main__":
    main()
