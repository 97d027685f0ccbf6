"""Text in and out: UTF-8 whatever the locale, and output that cannot fail: who reads it may leave, the work goes on."""

import errno
import io
import locale
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

SECONDS = 60
"""That a program may take to say what it is asked."""
_LEFT = (errno.EPIPE, errno.EIO, errno.ENXIO)
"""Errors of a pipe whose reader has left, and of a terminal that is gone."""


def in_utf8() -> None:
    """Start this program again in Python's UTF-8 mode where the locale is of another encoding.

    Every text of the project is UTF-8. It keeps its process number, and what it starts is in that mode, too.
    """
    if not sys.flags.utf8_mode and locale.getencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def said(command: Sequence[str]) -> str | None:
    """What a program writes to standard output; None where it fails, does not exist or does not end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


class _Unfailing(io.FileIO):
    """A descriptor to write to; what cannot be written is dropped, after a line about it on standard error."""

    whatever = True
    failed = False

    def write(self, data: Any) -> int:
        try:
            if not self.failed:
                written = super().write(data)
                return len(data) if written is None else written
        except OSError as error:
            self.failed = True
            if not self.whatever and error.errno not in _LEFT:
                raise
            if self.fileno() != 2:
                with suppress(OSError):
                    os.write(
                        2, f"replicate: nothing is shown any more ({error.strerror}); the work goes on.\n".encode()
                    )
        return len(data)


def unfailing(whatever: bool = True) -> None:
    """From now on nobody who leaves while we write to standard output or error ends the program or its exit code.

    Characters that the terminal's encoding lacks are replaced. What has taken the place of the streams is left alone.

    Args:
        whatever: the error is, a full disk included: for work that its output only tells of.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        stream.flush()
        raw = _Unfailing(stream.fileno(), "w", closefd=False)
        raw.whatever = whatever
        wrapped = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors="replace" if name == "stdout" else "backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, wrapped)
