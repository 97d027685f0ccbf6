"""Locks between processes, on machines that share a folder, too; the kernel frees a lock when its holder ends.

filelock has no such lock: its `FileLock` cannot be shared and says nothing of who holds it, its `ReadWriteLock` is an
SQLite database, which network file systems damage. Its `SoftFileLock` serves where a file system has no locks (some
Lustre and NFS): files that name their holder, slower, and to be deleted by hand where the holder was killed elsewhere.
"""

import errno
import fcntl
import glob
import itertools
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOOK_SECONDS = 0.5
"""Between two attempts to get a lock that another process holds."""
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)
_number = itertools.count()
_warned = False


class Taken(Exception):
    """Another process holds the lock."""


@contextmanager
def lock(path: Path, *, shared: bool = False, seconds_left: Callable[[], float] | None = None) -> Iterator[int]:
    """Hold the lock that the file `path` stands for; yields a descriptor of that file, whose content is the caller's.

    Args:
        shared: beside others who share it; otherwise alone.
        seconds_left: how long to wait still for who holds it, asked again and again; without it there is no waiting.

    Raises:
        Taken: another process holds it.
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while (release := _take(descriptor, path, shared)) is None:
            if seconds_left is None or seconds_left() <= 0:
                raise Taken(path)
            time.sleep(LOOK_SECONDS)
        try:
            yield descriptor
        finally:
            release()
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, shared: bool) -> Callable[[], None] | None:
    """What frees the lock that is ours now (beside closing the descriptor), None where another process holds it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        _warn(path)
        return _take_by_files(path, shared)
    return lambda: None


def _take_by_files(path: Path, shared: bool) -> Callable[[], None] | None:
    """`_take` with a file for who is alone, and one for each who shares."""
    from filelock import SoftFileLock, Timeout

    def taken(name: str) -> SoftFileLock | None:
        held = SoftFileLock(path.with_name(name))
        try:
            held.acquire(timeout=0)
        except Timeout:
            return None
        return held

    alone = f"{path.name}.alone"
    shares = f"{path.name}.shared-"
    mine = taken(f"{shares}{socket.gethostname()}-{os.getpid()}-{next(_number)}" if shared else alone)
    if mine is None:
        return None
    # Looked at only where there is one: two who share must not stand in each other's way by trying who is alone.
    others = glob.escape(alone) if shared else f"{glob.escape(shares)}*"
    for name in glob.glob(others, root_dir=path.parent, include_hidden=True):
        other = taken(name)
        if other is None:
            mine.release()
            return None
        other.release()
    return mine.release


def _warn(path: Path) -> None:
    global _warned
    if not _warned:
        _warned = True
        print(
            f"replicate: the file system of {path.parent} keeps no locks; files beside {path.name} take their place.",
            file=sys.stderr,
            flush=True,
        )
