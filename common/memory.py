"""Memory that does not suffice: how much was wanted, and what would help."""

import re
from dataclasses import dataclass

import torch

_SIZE = r"([\d.]+) ?(bytes|[KMGT]i?B)"
_UNITS = {"bytes": 2**-30, "K": 2**-20, "M": 2**-10, "G": 1.0, "T": 2**10}
_WORDS = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
"""What torch says of a shortage where it raises no error of its own for it."""


@dataclass(frozen=True)
class Shortage:
    """What the message of an allocation that failed tells; sizes in GiB, None where it does not say.

    Attributes:
        on_gpu: whether it was the GPU's memory.
        wanted: the allocation that failed.
        in_use: by this process at that moment.
        capacity: of the GPU.
    """

    on_gpu: bool
    wanted: float | None
    in_use: float | None
    capacity: float | None

    @property
    def sentence(self) -> str:
        """What was wanted, and of how much."""
        device = "the GPU" if self.on_gpu else "this machine"
        text = f"{device} is out of memory: {_size(self.wanted)} wanted beyond {_size(self.in_use, 'what was')} in use"
        return text if self.capacity is None else f"{text}, of {_size(self.capacity)} in all"

    def remedy(self, chunked: bool) -> str:
        """What would let a run fit that does not even alone.

        Args:
            chunked: whether the experiment has a parameter `chunk`, the examples that a pass takes at once.
        """
        device = "GPU" if self.on_gpu else "machine"
        known = self.wanted is not None and self.in_use is not None
        enough = f"with at least {_size((self.wanted or 0) + (self.in_use or 0))} free" if known else "with more memory"
        smaller = "a smaller `chunk` in config.yaml" if chunked else "passes over fewer examples at once"
        return f"a {device} {enough} would do, or {smaller}"


def shortage(error: BaseException) -> Shortage | None:
    """The shortage that an error tells of; None if it is about something else."""
    text = str(error)
    named = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if not named and not (isinstance(error, RuntimeError) and any(word in text for word in _WORDS)):
        return None
    on_gpu = isinstance(error, torch.OutOfMemoryError) or "CU" in text
    return Shortage(
        on_gpu,
        _found(rf"(?:allocate|Unable to allocate) {_SIZE}", text),
        _found(rf"this process has {_SIZE} memory in use", text),
        _found(rf"total capacity of {_SIZE}", text),
    )


def _found(pattern: str, text: str) -> float | None:
    found = re.search(pattern, text)
    if found is None:
        return None
    return float(found.group(1)) * _UNITS[found.group(2) if found.group(2) == "bytes" else found.group(2)[0]]


def _size(gib: float | None, unknown: str = "more") -> str:
    if gib is None:
        return unknown
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"
