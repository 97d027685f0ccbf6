"""Files that are never half-written or half-read, and where the project lies.

Whoever writes a file that another process may read does so through `atomic_path`, and whoever reads what another
process may be writing lists it with `published` and reads it with `peek_json`: what is missing, empty or half there
is not there yet.
"""

import errno
import glob
import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from common.errors import UserError

TEMPORARY = ".partial"
"""What the name of a temporary file ends in; it begins with a dot."""
ABANDONED_SECONDS = 3600.0
"""A temporary file that nobody has written to for so long belongs to a process that was killed."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
"""Errors that say that a file is not there, or on NFS no longer."""


@contextmanager
def atomic_path(path: Path, sync: bool = True) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    Args:
        sync: whether to wait for the disk; what is made again in a second need not.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if sync:
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
        if sync:
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporary_files(folder: Path) -> None:
    """Delete what a killed process's `atomic_path` left anywhere below `folder`; nobody may be writing there."""
    for path in folder.rglob(".*"):
        if path.is_file():
            path.unlink()


def remove_abandoned(folder: Path) -> None:
    """Delete temporary files in `folder` that a killed process left long ago; others may be writing there."""
    for name in glob.glob(f".*{TEMPORARY}", root_dir=folder):
        status = status_of(folder / name)
        if status is not None and time.time() - status.st_mtime > ABANDONED_SECONDS:
            with suppress(OSError):
                (folder / name).unlink()


def published(folder: Path, pattern: str = "*") -> list[Path]:
    """Paths below `folder` that match a glob pattern, sorted: complete files and folders, none that is being written.

    As in a shell, a wildcard matches no name that begins with a dot, so no temporary file either. A folder that is
    missing, or is removed meanwhile, holds nothing.
    """
    found = glob.glob(pattern, root_dir=folder, recursive=True)
    return sorted(folder / name for name in found if not name.endswith(TEMPORARY))


def status_of(path: Path) -> os.stat_result | None:
    """Size and times of a file that another process may remove; None where it is not there."""
    try:
        return path.stat()
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_atomically(path: Path, content: bytes | str, sync: bool = True) -> None:
    """Write `content` (text as UTF-8) so that a reader sees the old file or the new one, never a part."""
    with atomic_path(path, sync) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_if_changed(path: Path, content: str) -> bool:
    """Write unless the file holds just that already, so that its time tells when it last changed."""
    if path.is_file() and path.read_text() == content:
        return False
    write_atomically(path, content)
    return True


def finite(value: Any) -> Any:
    """`value` with NaN and infinities, which JSON lacks, as None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def as_json(value: Any) -> str:
    """Stable JSON text: sorted keys, one-space indent, no NaN."""
    return json.dumps(finite(value), sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write `as_json(value)` atomically."""
    write_atomically(path, as_json(value))


def read_json(path: Path) -> Any:
    """The content of a JSON file; raises `UserError` naming the file if it cannot be parsed."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not JSON (its bytes are not UTF-8); delete the file to have it rebuilt.") from error
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}:{error.lineno}: not JSON ({error.msg}); delete the file to have it rebuilt."
        ) from error


def read_json_or(path: Path, otherwise: Any) -> Any:
    """`read_json` of a file that may not be there."""
    return read_json(path) if path.is_file() else otherwise


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The mappings that a JSON file lists, none where it is not there; raises `UserError` if it holds anything else."""
    found = read_json_or(path, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UserError(f"{path}: not a list of entries; delete the file to have it rebuilt.")
    return found


def peek_json(path: Path) -> Any:
    """The content of a JSON file that another process writes or removes; None while it is missing, empty or half."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # not JSON, not UTF-8
        return None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def sha256_of(path: Path) -> str:
    """Hexadecimal sha256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def checkout_of(folder: Path) -> Path | None:
    """The nearest folder, from `folder` upwards, that holds `replications/` and `common/`; None outside of any."""
    for root in (folder, *folder.parents):
        if (root / "replications").is_dir() and (root / "common").is_dir():
            return root
    return None


def project_root() -> Path:
    """The checkout that the working directory lies in."""
    here = Path.cwd()
    if (root := checkout_of(here)) is None:
        raise UserError(
            f"{here} is not inside a checkout: no parent folder holds replications/ and common/; change into one."
        )
    return root
