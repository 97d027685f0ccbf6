"""Signals that a piece of work answers in its own way."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def answering(numbers: Sequence[int], handle: Callable[[int, Any], None]) -> Iterator[None]:
    """Within: these signals call `handle`; one that was ignored before (SIGHUP under nohup) stays so."""
    before = {number: signal.signal(number, handle) for number in numbers if signal.getsignal(number) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
