"""What Snakemake is asked and told beside a build: whether something is due, and that results are up to date."""

import subprocess
import sys
from pathlib import Path

from common.errors import UserError
from common.experiments.identity import Identities
from common.experiments.replication import Replication
from common.workflow.state import Folders, analysis_is_current


def touch(replication: Replication, scale: str, folders: Folders) -> None:
    """Tell Snakemake that what lies there is up to date, as far as it is."""
    identities = Identities(replication, folders.store)
    jobs = replication.jobs(scale)
    if not all(identities.current(run) for job in jobs for run in job.runs):
        return
    targets = [f"results/{job.marker.as_posix()}" for job in jobs]
    if analysis_is_current(replication, scale, folders):
        targets = [f"analysis/{scale}/{replication.name}/verdicts.json"]
    _snakemake(folders.root, scale, "--touch", *targets)


def up_to_date(replication: Replication, scale: str, folders: Folders) -> bool:
    """Whether Snakemake has nothing to do up to the verdicts of a paper."""
    target = f"analysis/{scale}/{replication.name}/verdicts.json"
    return "Nothing to be done" in _snakemake(folders.root, scale, "--dry-run", target)


def _snakemake(root: Path, scale: str, option: str, *targets: str) -> str:
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "1",
        option,
        "--config",
        f"scale={scale}",
        "--",
        *targets,
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"snakemake {option} failed: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout + done.stderr
