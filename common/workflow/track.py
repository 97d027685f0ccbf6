"""`replicate track`: DVC records what the workflow made."""

import subprocess
import sys
from collections.abc import Mapping

from common.errors import UserError, needs
from common.experiments.replication import Replication
from common.workflow.snakemake_calls import up_to_date
from common.workflow.state import Folders, run_states
from common.workflow.sync import stage_name, sync


def track(replications: Mapping[str, Replication], scale: str, folders: Folders) -> list[str]:
    """Have DVC record what the workflow made; returns the stages.

    Raises:
        UserError: Snakemake or DVC is not installed; something is due or damaged, so that what lies there must not be
            recorded.
    """
    for module in ("snakemake", "dvc"):
        needs(module)
    for name, replication in replications.items():
        for state in run_states(replication, scale, folders.store):
            if state.outcome.status == "damaged":
                raise UserError(f"{state.run} is damaged: {state.outcome.reason}: run `make reports` first.")
        if not up_to_date(replication, scale, folders):
            raise UserError(f"{name} is not up to date at scale {scale}: run `make reports` first.")
    stages = [stage_name(name, scale) for name in replications]
    sync(folders.root, also=stages)
    done = subprocess.run(
        [sys.executable, "-m", "dvc", "commit", "--force", *stages],
        cwd=folders.root,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise UserError(f"dvc commit failed: {done.stderr.strip()}")
    return stages
