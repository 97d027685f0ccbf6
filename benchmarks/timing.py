"""Interleaved timing: every function in turn, again and again, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import torch


def clock() -> Callable[[], float]:
    """The processor's time of this process where it has one thread, which other work on the machine hardly moves."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def now(device: str) -> float:
    """Seconds, once the device has done what it was given; the processor's own where one thread does it all."""
    if device == "cpu":
        return clock()()
    torch.cuda.synchronize()
    return time.perf_counter()


def medians(
    functions: Mapping[str, Callable[[], object]], repetitions: int = 3, device: str = "cpu"
) -> dict[str, float]:
    """Seconds of each function, the median of `repetitions` after one call to warm up.

    Functions of less than a third of a second are called three times as often. One that raises is left out, and the
    error is printed.
    """
    read = partial(now, device)
    seconds: dict[str, list[float]] = {}
    first: dict[str, float] = {}
    for name, function in functions.items():
        try:
            start = read()
            function()
            first[name] = read() - start
            seconds[name] = []
        except Exception as error:
            print(f"  {name}: {type(error).__name__}: {str(error)[:100]}", flush=True)
    for number in range(3 * repetitions):
        for name, values in seconds.items():
            if number >= repetitions and first[name] > 0.33:
                continue
            start = read()
            functions[name]()
            values.append(read() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}
