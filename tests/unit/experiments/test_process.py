"""Memory that one operation frees serves the next."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys, torch
from common.experiments import process
if sys.argv[1] == "keep":
    process.keep_freed()
def operation():
    for tensor in [torch.ones(2**20) for _ in range(6)]:
        tensor.add_(1)
for _ in range(3):
    operation()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    operation()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

RETURNING = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Has glibc return large blocks at once, as it begins by default; it would learn from the first, at times enough."""


def faults(mode: str) -> int:
    """Pages, small or huge, that the kernel had to give to ten operations on 24 MiB after the first three."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, env=os.environ | RETURNING
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc is Linux's")
def test_freed_memory_is_used_again() -> None:
    assert faults("keep") < faults("return") / 2
