"""Package clients as carriers of data: each brings one pinned package into a folder. Nothing is installed.

A client runs without a terminal and without input, in a process group of its own, for a limited time.
"""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from common.datasets.archives import UnsafeArchive, unpack
from common.datasets.registry import Apt, Client, Npm, Pip, TorchGeometric, Torchvision, Web
from common.datasets.store import mismatch
from common.files import sha256_of

Outcome = Literal[
    "used", "damaged", "absent", "not set", "not installed", "skipped", "timed out", "failed"
]  # of one attempt at one source


class SourceFailed(Exception):
    """A source that did not deliver: its `outcome` and a reason in one phrase."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome: Outcome = outcome
        self.reason = reason


def deliver(source: Client, scratch: Path) -> Path:
    """Have the client of `source` fetch its package below `scratch`; returns the folder that holds the files.

    Raises:
        SourceFailed: the client is not installed, failed, took too long, or brought what its pin does not say.
    """
    work = scratch / source.kind
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        if isinstance(source, Npm):
            _npm(source, work)
        elif isinstance(source, Pip):
            _pip(source, work)
        elif isinstance(source, Apt):
            _apt(source, work)
        elif isinstance(source, Torchvision):
            _home("torchvision", source.dataset, source, work)
        elif isinstance(source, TorchGeometric):
            _home("torch_geometric", source.collection, source, work)
        else:
            _home(None, source.address, source, work)
    except UnsafeArchive as error:
        raise SourceFailed("failed", str(error)) from error
    return work / "content"


def _npm(source: Npm, work: Path) -> None:
    npm = _installed("npm")
    options = "--ignore-scripts --loglevel=error --cache=./cache --no-update-notifier --yes"
    retries = "--fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=2000"
    package = f"{source.package}@{source.version}"
    run([npm, "pack", package, *options.split(), *retries.split()], work, source.time_limit)
    _unpack_pinned(_only(work, "*.tgz"), source, work)


def _pip(source: Pip, work: Path) -> None:
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip"]
    else:
        pip = [shutil.which("pip3") or _installed("pip")]
    # Wheels alone: a source distribution would run its own code on being looked at.
    options = "--no-deps --only-binary=:all: --dest=. --no-cache-dir --no-input --quiet --retries=1"
    package = f"{source.package}=={source.version}"
    run([*pip, "download", package, "--disable-pip-version-check", *options.split()], work, source.time_limit)
    _unpack_pinned(_only(work, "*.whl"), source, work)


def _apt(source: Apt, work: Path) -> None:
    apt, dpkg = _installed("apt-get"), _installed("dpkg-deb")
    package = source.package + (f"={source.version}" if source.version else "")
    options = ["-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=1", "-q"]
    try:
        run([apt, "download", package, *options], work, source.time_limit)
    except SourceFailed as failure:
        if failure.outcome != "failed" or "nable to locate" not in failure.reason:
            raise
        # A fresh machine has no package lists: read them into a folder of our own, which needs no root.
        (work / "lists" / "partial").mkdir(parents=True)
        (work / "cache" / "archives" / "partial").mkdir(parents=True)
        options += ["-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache"]
        run([apt, "update", *options], work, source.time_limit)
        run([apt, "download", package, *options], work, source.time_limit)
    tree = work / "tree.tar"
    with tree.open("wb") as stream:
        run([dpkg, "--fsys-tarfile", str(_only(work, "*.deb"))], work, source.time_limit, output=stream)
    unpack(tree, work / "content", source.inside)
    tree.unlink()


def _home(package: str | None, what: str, source: Torchvision | TorchGeometric | Web, work: Path) -> None:
    """Have `common.datasets.homes` bring `what` by means of `package`, in a process of its own."""
    if package is not None and importlib.util.find_spec(package) is None:
        raise SourceFailed("not installed", f"{package.replace('_', '-')} is not installed")
    root = str(Path(__file__).resolve().parents[2])
    path = {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "common.datasets.homes", source.kind, what, str(work / "content")]
    run(command, work, source.time_limit, path)


def _installed(client: str) -> str:
    path = shutil.which(client)
    if path is None:
        raise SourceFailed("not installed", f"{client} is not installed")
    return path


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise SourceFailed("failed", f"the client left {len(found)} files {pattern} instead of one")
    return found[0]


def _unpack_pinned(archive: Path, source: Npm | Pip, work: Path) -> None:
    if source.archive_sha256 and (problem := mismatch(archive.name, sha256_of(archive), source.archive_sha256)):
        raise SourceFailed("failed", problem)
    unpack(archive, work / "content", source.inside)


def run(
    command: Sequence[str],
    folder: Path,
    time_limit: float,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> None:
    """Run a client in `folder`, its standard output going to `output`.

    It gets no input and no terminal to ask on. When `time_limit` (seconds) is over, or this process is
    interrupted, the client and its children are killed.

    Raises:
        SourceFailed: `timed out`, or `failed` with the client's own first words of complaint.
    """
    name = Path(command[0]).name
    settings = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=settings,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise SourceFailed("failed", f"{name} could not be started ({error.strerror})") from error
    try:
        _, complaint = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired:
        raise SourceFailed("timed out", f"{name} did not finish within {time_limit:g} s") from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        raise SourceFailed("failed", complaint_of(complaint.decode(errors="replace"), name, process.returncode))


_PREFIX = re.compile(r"^(npm (error|ERR!)|ERROR:|error:|E:|Err:\d+|dpkg-deb: error:)\s*")
_ADDRESS = re.compile(
    r"\b[a-z+]+://\S+|\b[\w.-]+\.(com|org|net|io|dev|local|internal)\b(:\d+)?|\b\d+(\.\d+){3}(:\d+)?\b"
)


def complaint_of(text: str, client: str, status: int) -> str:
    """The first two lines in which a client says what is wrong, in one phrase, without addresses."""
    found = []
    for line in text.splitlines():
        prefix = _PREFIX.match(line)
        rest = line[prefix.end() :].strip() if prefix else ""
        if rest and rest not in found and not rest.startswith(("at ", "A complete log")):
            found.append(rest)
    reason = _ADDRESS.sub("…", "; ".join(found[:2])) or f"{client} ended with status {status}"
    return reason if len(reason) <= 240 else f"{reason[:239]}…"
