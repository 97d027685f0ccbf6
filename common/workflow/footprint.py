"""Memory of a call: what its tensors hold, what there is, and what of it a process has taken."""

import ctypes
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from common.experiments import process


@dataclass(frozen=True)
class Footprint:
    """Bytes that tensors of a call hold.

    Attributes:
        lasting: most between operations: data, weights, state of the optimiser.
        passing: what the peak holds beyond that: a step, an evaluation, a measurement.
    """

    lasting: float
    passing: float

    @property
    def total(self) -> float:
        """The peak."""
        return self.lasting + self.passing

    def carried(self, other: "Footprint", lasting: float, passing: float) -> "Footprint":
        """This one carried on by so many times the way from here to `other`, at least as far as here."""
        return Footprint(_further(self.lasting, other.lasting, lasting), _further(self.passing, other.passing, passing))


def _further(one: float, other: float, steps: float) -> float:
    return one + steps * max(other - one, 0.0)


def at_once(one: Footprint, all_seeds: Footprint, seeds: int, room: float) -> int:
    """Seeds that fit into so many bytes together."""
    if seeds == 1 or one.total > room:
        return int(one.total <= room)
    each = max((all_seeds.total - one.total) / (seeds - 1), 1.0)
    return min(seeds, 1 + int((room - one.total) // each))


def shortage(one: Footprint, all_seeds: Footprint, seeds: int, room: float) -> str:
    """What a call of so many seeds needs of so many bytes and how many seeds would fit; empty where all do."""
    if all_seeds.total <= room:
        return ""
    many = at_once(one, all_seeds, seeds, room)
    needs = f"its {seeds} seeds at once need" if seeds > 1 else "it needs"
    helps = f"; {many} at a time would fit" if many else ""
    alone = f"; one alone needs {one.total / 1e9:.1f} GB" if seeds > 1 and not many else ""
    return f"{needs} {all_seeds.total / 1e9:.1f} GB of {room / 1e9:.1f} GB that tensors may take{helps}{alone}"


def available_gb(device: torch.device) -> float:
    """Memory of the GPU, or what this machine has left."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[1] / 1e9)
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable:") * 1024 / 1e9


def limit_memory(gb: float) -> None:
    """Let an allocation beyond what there is fail at once, with its size, before the machine is short of memory.

    What the process has handed back but not unmapped (`reset_peak`), which the kernel counts, comes on top. Infinitely
    many GB lift an earlier limit, as far as the process may.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = most
    if gb < float("inf"):
        mapped, held = (_kilobytes(Path("/proc/self/status"), entry) for entry in ("VmData:", "RssAnon:"))
        idle = 1024 * (mapped - held) if mapped < float("inf") else 0.0
        wanted = int(gb * 1e9 + max(idle, 0.0))
        allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, most))


def reset_peak(device: torch.device) -> None:
    """Let `peak_gb` begin anew, and other processes have what earlier calls have freed."""
    process.release()
    with suppress(OSError, AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gb(device: torch.device) -> float:
    """Most memory since `reset_peak`: of the GPU, else of this process."""
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device) / 1e9)
    return _kilobytes(Path("/proc/self/status"), "VmHWM:") * 1024 / 1e9


def _kilobytes(path: Path, entry: str) -> float:
    """An entry of a file of the kernel; infinite where there is none."""
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(entry):
                return float(line.split()[1])
    return float("inf")
