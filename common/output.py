"""Text in and out: UTF-8 whatever the locale, and output that cannot fail: who reads it may leave, the work goes on."""

import io
import locale
import os
import sys
from contextlib import suppress
from typing import Any

_ENDED = b"replicate: nobody reads the output any more; the work goes on.\n"


def in_utf8() -> None:
    """Start this program again in Python's UTF-8 mode where the locale is of another encoding.

    Every text of the project is UTF-8. It keeps its process number, and what it starts is in that mode, too.
    """
    if not sys.flags.utf8_mode and locale.getencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class _Unfailing(io.FileIO):
    """A descriptor to write to; what cannot be written (a closed pipe, a terminal that is gone) is dropped."""

    failed = False

    def write(self, data: Any) -> int:
        try:
            if not self.failed:
                written = super().write(data)
                return len(data) if written is None else written
        except OSError:
            self.failed = True
            if self.fileno() != 2:
                with suppress(OSError):
                    os.write(2, _ENDED)
        return len(data)


def unfailing() -> None:
    """From now on no error in writing to standard output or error reaches the program, nor its exit code.

    Characters that the terminal's encoding lacks are replaced. What has taken the place of the streams is left alone.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue
        stream.flush()
        raw = _Unfailing(stream.fileno(), "w", closefd=False)
        wrapped = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors="replace" if name == "stdout" else "backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, wrapped)
