"""The process of a job: its memory, threads and device, and the signals that end it."""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from common.experiments.context import Clock
from common.signals import answering

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them


def prepare_torch(cpus: int) -> torch.device:
    """Memory, threads, determinism and the device of a job."""
    keep_freed()
    torch.set_num_threads(cpus)
    if not torch.cuda.is_available():
        return torch.device("cpu")  # deterministic at a given number of threads
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    return torch.device("cuda")


def keep_freed() -> None:
    """Let this process reuse the memory it has freed instead of handing it back after each operation.

    glibc returns large blocks at once, and the kernel clears each page anew for the next operation: a tenth to a
    quarter of the time of small convolutional networks. Blocks above 32 MB, the most that glibc keeps, still go back.
    Nothing where the C library is another one.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in ((_MMAP_THRESHOLD, 32 * 2**20), (_TRIM_THRESHOLD, 2**30)):
            mallopt(name, value)


def release() -> None:
    """Give back what a call that has ended still held on the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def stopping_at_checkpoints(clock: Clock) -> Iterator[None]:
    """SIGTERM, SIGHUP (a closed terminal) and the first Ctrl-C end the job at its next checkpoint.

    The second Ctrl-C ends it at once. A signal that was ignored before (SIGHUP under nohup) stays so.
    """

    def stop(number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            if clock.stop_requested:
                raise KeyboardInterrupt
            with suppress(OSError):  # not print(): it may be in the middle of printing
                os.write(2, b"\nEnding at the next checkpoint; Ctrl-C again ends at once.\n")
        clock.stop_requested = True

    with answering((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), stop):
        yield
