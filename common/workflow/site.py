"""`replicate site`: every page from what there is, which may be the published evidence alone; computes no run."""

import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common.reports import build_index


def build_site(root: Path, papers: Iterable[str], scale: str) -> list[str]:
    """Build the page of each paper by a process of its own, as many at once as there are cores, and the index.

    Returns:
        A sentence for each page, or part of one, that could not be built.
    """

    def page(paper: str) -> list[str]:
        command = [sys.executable, "-m", "common.cli", "step", "page", paper, scale]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.strip()]
        if done.returncode and not said:
            said = [f"its page ended with exit code {done.returncode}."]
        return [f"{paper}: {line}" for line in said]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        problems = [line for lines in pool.map(page, papers) for line in lines]
    build_index(root, scale)
    return problems
