"""Unpacking archives from strangers: nothing is written outside the folder, links are never made."""

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from common.datasets.registry import is_safe_relative

LARGEST_UNPACKED = 16 * 2**30  # bytes; beyond it an archive is taken for a bomb


_UNREADABLE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


class UnsafeArchive(Exception):
    """An archive that is damaged or wants to write where it must not."""


def unpack(archive: Path, into: Path, inside: str = ".") -> None:
    """Unpack the regular files below the folder `inside` of a tar (any compression) or zip into `into`.

    Links and devices are left out. Modes, owners and times of the archive are ignored.

    Raises:
        UnsafeArchive: any member has an absolute path or `..`, the archive cannot be read, or it is too large.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                _write(_zip_members(opened), into, inside)
        else:
            with tarfile.open(archive, "r:*") as opened_tar:
                _write(_tar_members(opened_tar), into, inside)
    except (*_UNREADABLE, RuntimeError) as error:  # RuntimeError: an encrypted zip
        raise UnsafeArchive(f"{archive.name} is not a readable archive ({_short(error)})") from error


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


Member = tuple[str, int, IO[bytes] | None]


def _tar_members(archive: tarfile.TarFile) -> Iterator[Member]:
    for member in archive:
        yield member.name, member.size, archive.extractfile(member) if member.isreg() else None


def _zip_members(archive: zipfile.ZipFile) -> Iterator[Member]:
    for member in archive.infolist():
        kind = member.external_attr >> 28  # high bits of the Unix mode; 0 where none was stored, 8 a regular file
        if member.is_dir() or kind not in (0, 8):
            yield member.filename, 0, None
        else:
            with archive.open(member) as stream:
                yield member.filename, member.file_size, stream


def _write(members: Iterator[Member], into: Path, inside: str) -> None:
    total = 0
    prefix = PurePosixPath(inside)
    for name, size, stream in members:
        if not is_safe_relative(name):
            raise UnsafeArchive(f"the archive holds the path {name!r}, which leads outside its folder")
        path = PurePosixPath(name)
        if stream is None or not path.is_relative_to(prefix):
            continue
        total += size
        if total > LARGEST_UNPACKED:
            raise UnsafeArchive(f"the archive unpacks to more than {LARGEST_UNPACKED} bytes")
        target = into / path.relative_to(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            shutil.copyfileobj(stream, out, 1 << 20)


@contextmanager
def unpacked_beside(archives: list[Path], scratch: Path) -> Iterator[Path]:
    """A folder below `scratch` with the content of all `archives`, gone when the block ends."""
    folder = scratch / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        for number, archive in enumerate(archives):
            unpack(archive, folder / str(number))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
