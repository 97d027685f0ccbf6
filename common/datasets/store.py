"""The cache: a folder for each version of a data set, with its decoded files and a note that they were checked.

    <cache>/datasets/<name>/<version>/<file>, verified.json

A file put there by hand counts as any other: it is checked, and put aside (`<file>.damaged`) if it is wrong.
"""

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.datasets.registry import DataFile, Entry
from common.errors import UserError
from common.files import read_json, sha256_of, write_atomically, write_json
from common.locks import lock

NOTE = "verified.json"


def cache_folder() -> Path:
    """`$REPLICATIONS_CACHE`, else `$XDG_CACHE_HOME/hessian-replications`, else the same below `~/.cache`; absolute.

    A user without a home (a container's arbitrary number) has a folder of that number among the temporary ones.
    """
    if chosen := os.environ.get("REPLICATIONS_CACHE"):
        return Path(os.path.expanduser(chosen)).absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / "hessian-replications"
    try:
        return Path.home() / ".cache" / "hessian-replications"
    except RuntimeError:
        return Path(tempfile.gettempdir(), f"hessian-replications-{os.getuid()}")


def shown(path: Path) -> str:
    """`path` for a message: the home folder as `~`."""
    with suppress(ValueError, RuntimeError):
        return f"~/{path.relative_to(Path.home())}"
    return str(path)


class Store:
    """The cache folder of one data set."""

    def __init__(self, name: str, entry: Entry) -> None:
        self.entry = entry
        self.folder = cache_folder() / "datasets" / name / entry.version

    def path(self, file: DataFile | str) -> Path:
        return self.folder / (file if isinstance(file, str) else file.name)

    def is_current(self) -> bool:
        """Whether every file is unchanged (size and time) since its digest was found to be right. Cheap."""
        try:
            noted = read_json(self.folder / NOTE)
            return all(noted.get(file.name) == self._state(file) for file in self.entry.files)
        except (OSError, UserError, UnicodeDecodeError, AttributeError):
            return False

    def _state(self, file: DataFile) -> list[int | str]:
        status = self.path(file).stat()
        return [status.st_size, status.st_mtime_ns, file.sha256]

    def is_intact(self) -> bool:
        """Whether every file has the registry's size and sha256, read in full. Notes it down if so."""
        try:
            intact = all(self.problem(file) is None for file in self.entry.files)
        except OSError:
            return False
        if intact:
            self.note()
        return intact

    def problem(self, file: DataFile) -> str | None:
        """Why the cached `file` must not be used, or None; raises `FileNotFoundError` if it is not there."""
        size = self.path(file).stat().st_size
        if size != file.size:
            return f"{file.name} has {size} bytes instead of {file.size}"
        return mismatch(file.name, sha256_of(self.path(file)), file.sha256)

    def note(self) -> None:
        """Note that all files were checked; a cache that cannot be written stays without the note."""
        with suppress(OSError):
            write_json(self.folder / NOTE, {file.name: self._state(file) for file in self.entry.files})

    def forget(self) -> None:
        """Drop the note, so that the next look reads every file again."""
        with suppress(OSError):
            (self.folder / NOTE).unlink(missing_ok=True)

    def put_aside(self, file: DataFile) -> str:
        """Rename a damaged file, so that it is neither used nor lost; returns its new name."""
        aside = self.path(f"{file.name}.damaged")
        self.path(file).replace(aside)
        return aside.name

    def keep(self, file: DataFile, content: bytes) -> None:
        """Store the decoded bytes of `file`, which the caller has checked."""
        write_atomically(self.path(file), content)

    @contextmanager
    def locked(self) -> Iterator[Path]:
        """Hold this data set alone among processes; yields an empty scratch folder on the same disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        prefix = f"{self.entry.version}.incoming-"
        with lock(self.folder.parent / f"{self.entry.version}.lock", seconds_left=lambda: math.inf):
            for abandoned in self.folder.parent.glob(f"{prefix}*"):
                shutil.rmtree(abandoned, ignore_errors=True)
            with tempfile.TemporaryDirectory(
                prefix=prefix, dir=self.folder.parent, ignore_cleanup_errors=True
            ) as scratch:
                yield Path(scratch)


def mismatch(name: str, found: str, expected: str) -> str | None:
    """One phrase if two digests differ, else None."""
    return None if found == expected else f"{name} has sha256 {found[:12]}… instead of {expected[:12]}…"


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
