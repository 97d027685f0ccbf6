"""How well 200 short jobs fill the trial cluster.

    python -m tests.cluster.packing [--seconds 20] [--per-job 10] [--cpus 2]     as root; prints a line of JSON

Each of the 200 runs waits for so many seconds, so that what is measured is the workflow and not this machine's cores.
Ideal is what a scheduler without any cost needs: full waves of runs on the processors of the two nodes, however
many runs share a job. The wall time is that of the submitting Snakemake, from its start to its end.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common.workflow.discovery import find
from tests.cluster.slurm import Cluster
from tests.conftest import EXAMPLE, ROOT, Project, make_project

RUNS, NODES = 200, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="that a run takes")
    parser.add_argument("--per-job", type=int, default=10, help="runs in a job: 1, 2, 4, 5 or 10")
    parser.add_argument("--cpus", type=int, default=2, help="processors of a node")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder, "slurm"), NODES, arguments.cpus)
        cluster.up()
        try:
            project = _project(Path(folder, "checkout"), arguments.seconds, arguments.per_job)
            print(json.dumps(_measured(project, cluster, arguments.seconds)))
        finally:
            cluster.down()


def _project(root: Path, seconds: float, per_job: int) -> Project:
    """A checkout with one experiment of 20 settings and 10 seeds, whose one step takes `seconds`."""
    project = make_project(root, {"decay": EXAMPLE})
    (root / "slurm").symlink_to(ROOT / "slurm")
    rates = [0.1, 0.5, 3.0, *(round(0.01 * number, 2) for number in range(20, 17 + RUNS // 10))]
    resources = (
        f"mem_mb: 200, runtime: {10 + round(per_job * seconds / 60)}, per_job: {{learning_rate: 1, seed: {per_job}}}"
    )
    for old, new in {
        "[0.1, 0.5, 3.0]": str(rates),
        "seed: 5": "seed: 10",
        "  base: {steps: 40}": f"  base: {{steps: 1, pause: {seconds}}}",
        "  together: [seed]\n": "",
        "    laptop: {minutes: 0.6}\nmeasurement": f"    laptop: {{{resources}}}\nmeasurement",
    }.items():
        project.edit("config.yaml", old, new)
    return project


def _measured(project: Project, cluster: Cluster, seconds: float) -> dict[str, float]:
    jobs = [job for job in find(project.root, "decay").jobs("laptop") if job.experiment == "descent"]
    markers = [f"results/{job.marker.as_posix()}" for job in jobs]
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--config", "scale=laptop", "--", *markers]
    busy, started = _busy_seconds(), time.monotonic()
    with (project.root / "submit.log").open("wb") as log:
        code = subprocess.run(
            command,
            cwd=project.root,
            env=project.environment(**cluster.environment),
            stdout=log,
            stderr=subprocess.STDOUT,
        ).returncode
    wall = time.monotonic() - started
    if code:
        sys.exit((project.root / "submit.log").read_text()[-2000:])
    ideal = math.ceil(RUNS / (NODES * cluster.cpus)) * seconds
    return {
        "jobs": len(jobs),
        "wall_s": round(wall),
        "ideal_s": ideal,
        "ratio": round(wall / ideal, 3),
        "busy_cores": round((_busy_seconds() - busy) / wall, 2),
        "cores": os.cpu_count() or 0,
    }


def _busy_seconds() -> float:
    """Processor seconds that this machine has spent on anything."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
