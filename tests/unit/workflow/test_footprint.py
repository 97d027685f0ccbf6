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
LIMITED = """
import torch
from common.experiments.process import prepare_torch
from common.workflow.footprint import limit_memory, reset_peak

cpu = prepare_torch(1)
held = [(torch.ones(2_500_000), torch.ones(250_000)) for _ in range(80)]
pins = [pin for _, pin in held]
del held  # 800 MB stay mapped, in blocks that nothing large fits into
reset_peak(cpu)
limit_memory(2.0)
torch.ones(400_000_000)
try:
    torch.ones(600_000_000)
except RuntimeError as error:
    assert "allocate" in str(error)
else:
    raise AssertionError("more than there is")
limit_memory(float("inf"))
torch.ones(600_000_000)
"""
HELD = """
import resource
from common.workflow.footprint import limit_memory

most = 4 * 10**9
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
limit_memory(2.0)
assert resource.getrlimit(resource.RLIMIT_DATA)[0] < most
for gb in (100.0, float("inf")):
    limit_memory(gb)
    assert resource.getrlimit(resource.RLIMIT_DATA) == (most, most)
"""


def test_what_a_call_has_freed_is_not_part_of_the_next_ones_peak() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_a_limit_stays_below_the_one_that_the_process_may_not_raise() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_a_limit_is_of_what_a_call_holds_not_of_what_earlier_ones_have_mapped() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
