"""Memory of a process that rehearses one call after the other."""

import subprocess
import sys

from tests.conftest import ROOT

SCRIPT = """
import torch
from common.experiments.process import prepare_torch
from common.workflow.footprint import peak_gb, reset_peak

cpu = prepare_torch(1)
reset_peak(cpu)
before = peak_gb(cpu)
held = [torch.ones(2_500_000) for _ in range(80)]
pin = torch.ones(1000)
del held
assert peak_gb(cpu) - before > 0.7
reset_peak(cpu)
assert peak_gb(cpu) - before < 0.1, "freed memory is still there"
"""


def test_what_a_call_has_freed_is_not_part_of_the_next_ones_peak() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
