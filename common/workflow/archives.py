"""Archives of results: how a box without the workflow hands over what it computed."""

import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.datasets.archives import UnsafeArchive, unpack
from common.errors import UserError
from common.files import TEMPORARY, atomic_path, published

PART_BYTES = 15 * 2**20
"""Largest part of an archive: what mail, forms and small transfers take."""
ARCHIVES = (".tar", ".tar.gz", ".tgz")
_OTHER_ARCHIVES = (".zip", ".7z", ".gz", ".bz2", ".xz", ".zst", ".tbz2", ".txz")


def archive_place(out: Path) -> tuple[Path, Path | None]:
    """The results folder that `out` names, and the archive to make of it where the name is one of an archive.

    Raises:
        UserError: the name is one of another kind of archive, or a folder has the archive's name.
    """
    for ending in ARCHIVES:
        stem = out.name.removesuffix(ending)
        if stem and stem != out.name:
            if out.is_dir():
                raise UserError(f"{out} is a folder; name an archive that can be written, or a folder of another name.")
            return out.with_name(stem), out
    if out.suffix in _OTHER_ARCHIVES:
        raise UserError(f"{out}: of archives only {', '.join(ARCHIVES)} are made; name one, or a folder.")
    return out, None


def write_archive(results: Path, archive: Path) -> list[Path]:
    """Pack the finished runs and markers of a results folder; in parts `X.tar.000`, … if it is large.

    Returns:
        The files written.
    """
    for old in [archive, *archive.parent.glob(f"{archive.name}.[0-9][0-9][0-9]")]:
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as temporary:
        whole = Path(temporary) / "whole.tar"
        with tarfile.open(whole, "w:gz") as tar:
            for path in [*published(results), results / ".jobs"]:
                if path.exists():
                    tar.add(path, arcname=path.name, filter=_complete)
        if whole.stat().st_size <= PART_BYTES:
            whole.replace(archive)
            return [archive]
        parts: list[Path] = []
        with whole.open("rb") as stream:
            while chunk := stream.read(PART_BYTES):
                part = archive.with_name(f"{archive.name}.{len(parts):03d}")
                with atomic_path(part) as place:
                    place.write_bytes(chunk)
                parts.append(part)
        return parts


def _complete(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what another process is writing."""
    return None if member.name.endswith(TEMPORARY) else member


@contextmanager
def opened(source: Path) -> Iterator[Path]:
    """The results folder behind a folder or an archive (whole, or the first or common name of its parts).

    Raises:
        UserError: there is no such folder or archive, or it is damaged.
    """
    if source.is_dir():
        yield source
        return
    name = source.name.removesuffix(".000")
    parts = (
        [source] if source.is_file() and name == source.name else sorted(source.parent.glob(f"{name}.[0-9][0-9][0-9]"))
    )
    if not parts:
        raise UserError(f"{source}: no such folder or archive.")
    with tempfile.TemporaryDirectory() as temporary:
        packed = Path(temporary) / "whole.tar.gz"
        with packed.open("wb") as joined:
            for part in parts:
                joined.write(part.read_bytes())
        folder = Path(temporary) / "results"
        try:
            with gzip.open(packed) as stream:
                while stream.read(2**20):  # to its end: a lost last part is found
                    pass
            unpack(packed, folder)
        except (UnsafeArchive, EOFError, OSError, zlib.error) as error:
            raise UserError(f"{source}: damaged archive ({error}); fetch it again, with all of its parts.") from error
        yield folder
