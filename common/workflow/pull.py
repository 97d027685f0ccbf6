"""`replicate pull`: DVC fetches the results that dvc.lock records."""

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from common.errors import UserError, needs
from common.experiments.scales import SCALES
from common.workflow.sync import recorded_stages, stage_name, sync


def pull(root: Path, papers: Collection[str], scale: str | None = None) -> list[tuple[str, str]]:
    """Have DVC fetch what dvc.lock records of these papers, and nothing else: `dvc pull` alone asks for all stages.

    Args:
        scale: that scale alone; all recorded ones if None.

    Returns:
        Paper and scale of each stage fetched.

    Raises:
        UserError: DVC is not installed, nothing is recorded of them, or DVC could not fetch what is.
    """
    needs("dvc")
    sync(root)
    recorded = recorded_stages(root)
    wanted = [(paper, one) for paper in papers for one in ([scale] if scale else SCALES)]
    found = [(paper, one) for paper, one in wanted if stage_name(paper, one) in recorded]
    if not found:
        raise UserError(f"{root / 'dvc.lock'} records nothing of {', '.join(papers)}: `make reports` computes it.")
    stages = [stage_name(paper, one) for paper, one in found]
    code = subprocess.run([sys.executable, "-m", "dvc", "pull", *stages], cwd=root).returncode
    if code:
        raise UserError(f"dvc pull {' '.join(stages)} ended with exit code {code}; what it said stands above.")
    return found
