"""Fetching a data set: the cache, then each source in the registry's order, until every file has its digest."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common.datasets.archives import UnsafeArchive, unpacked_beside
from common.datasets.clients import Outcome, SourceFailed, deliver
from common.datasets.decoders import DECODERS
from common.datasets.decoding import Undecodable, find
from common.datasets.registry import DataFile, Entry, Mirror, Registry, Source, Web, load_registry
from common.datasets.store import Store, mismatch, sha256_of_bytes, shown

MIRROR = "REPLICATIONS_MIRROR"
OFFLINE = "REPLICATIONS_OFFLINE"


@dataclass(frozen=True)
class Attempt:
    """One attempt at one source. `outcome` is `used` for a source that served, if only some of the files."""

    source: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class FetchReport:
    """What `fetch` did. `digest` is None if the data set is not available; `remedy` then says what to do."""

    name: str
    digest: str | None
    attempts: tuple[Attempt, ...]
    remedy: str = ""

    @property
    def available(self) -> bool:
        return self.digest is not None

    def explanation(self) -> str:
        """Each attempt with its reason and, if nothing served, the two ways out."""
        tried = "; ".join(f"{attempt.source}: {attempt.reason}" for attempt in self.attempts)
        if self.available:
            return f"The data set {self.name} is available ({tried})."
        return f"The data set {self.name} is not available ({tried}). {self.remedy}"


def _silent(_message: str) -> None:
    pass


def fetch(name: str, registry: Registry | None = None, log: Callable[[str], None] = _silent) -> FetchReport:
    """Bring the data set `name` into the cache, where it is not there already.

    `log` is told before each source is tried. Two processes may fetch at once: one waits for the other.

    Raises:
        UserError: no such data set, or the registry is wrong. Sources out of reach are reported, not raised.
    """
    entry = (registry or load_registry()).entry(name)
    if not entry.files:
        absent = Attempt("registry", "absent", "no source can be asked without you")
        return FetchReport(name, None, (absent,), entry.instructions)
    store = Store(name, entry)
    if store.is_current():
        return FetchReport(name, entry.digest, (Attempt("cache", "used", "checked before"),))
    attempts: list[Attempt] = []
    try:
        with store.locked() as scratch:
            _fetch_locked(name, store, scratch, attempts, log)
            available = store.is_intact()
    except OSError as error:
        available = store.is_intact()  # a cache that cannot be written may still be read
        if available:
            attempts = [Attempt("cache", "used", "all files have their digests")]
        else:
            reason = f"{_system_reason(error)}; REPLICATIONS_CACHE chooses another folder"
            attempts.append(Attempt("cache", "failed", reason))
    return FetchReport(name, entry.digest if available else None, tuple(attempts), _remedy(name, entry, store))


def _fetch_locked(name: str, store: Store, scratch: Path, attempts: list[Attempt], log: Callable[[str], None]) -> None:
    missing = _check_cache(store, attempts)
    if missing:
        with suppress(SourceFailed, OSError):  # raw files or archives that were placed there by hand
            taken = _take([store.folder], missing, store, scratch)
            attempts.append(Attempt("cache", "used", taken))
    for source in store.entry.sources:
        if not missing:
            return
        if isinstance(source, Web) and source.file in _names(store.entry.files) - _names(missing):
            continue  # the one file that it serves is there
        log(f"{name}: trying {source.label}")
        try:
            attempts.append(Attempt(source.label, "used", _try(source, missing, store, scratch)))
        except SourceFailed as failure:
            attempts.append(Attempt(source.label, failure.outcome, failure.reason))
        except OSError as error:
            attempts.append(Attempt(source.label, "failed", _system_reason(error)))


def _system_reason(error: OSError) -> str:
    """What the system refused, with the file or folder if it says which."""
    where = f"{shown(Path(error.filename))}: " if isinstance(error.filename, str) else ""
    return f"{where}{error.strerror or error}"


def _check_cache(store: Store, attempts: list[Attempt]) -> list[DataFile]:
    """Files to be fetched. Damaged ones are put aside; adds the attempt `cache` with what was found."""
    missing, damaged = [], []
    for file in store.entry.files:
        try:
            problem = store.problem(file)
        except FileNotFoundError:
            missing.append(file)
            continue
        if problem is not None:
            missing.append(file)
            damaged.append(f"{problem} and was put aside as {store.put_aside(file)}")
    total = len(store.entry.files)
    if damaged:
        attempts.append(Attempt("cache", "damaged", "; ".join(damaged)))
    elif missing:
        attempts.append(Attempt("cache", "absent", f"{total - len(missing)} of {total} files are there"))
    else:
        attempts.append(Attempt("cache", "used", "all files have their digests"))
    return missing


def _try(source: Source, missing: list[DataFile], store: Store, scratch: Path) -> str:
    if isinstance(source, Mirror):
        return _take(_mirror_places(source), missing, store, scratch)
    if os.environ.get(OFFLINE, "") not in ("", "0"):
        raise SourceFailed("skipped", f"{OFFLINE} is set")
    return _take([deliver(source, scratch)], missing, store, scratch)


def _mirror_places(source: Mirror) -> list[Path]:
    """The folders and archives of the mirror that exist."""
    chosen = os.environ.get(MIRROR)
    if not chosen:
        raise SourceFailed("not set", f"{MIRROR} is not set")
    root = Path(os.path.expanduser(chosen))
    if not root.is_dir():
        raise SourceFailed("absent", f"{MIRROR} names {shown(root)}, which is no folder")
    places = [root / folder for folder in source.folders if (root / folder).exists()]
    if not places:
        raise SourceFailed("absent", f"${MIRROR} holds none of {', '.join(source.folders)}")
    return places


def _take(places: list[Path], missing: list[DataFile], store: Store, scratch: Path) -> str:
    """Decode, check and store what `places` (folders, archives) hold of `missing`, which shrinks.

    Raises `SourceFailed` with what is wrong, if anything is, or if they hold none of them.
    """
    problems: list[str] = []
    wanted = len(missing)
    for place in places:
        folders = [place] if place.is_dir() else []
        missing[:] = [file for file in missing if not _take_file(file, folders, store, problems)]
        archives = [place] if place.is_file() else [p for name in store.entry.archives for p in find(place, name)]
        if missing and archives:
            try:
                with unpacked_beside(archives, scratch) as unpacked:
                    missing[:] = [file for file in missing if not _take_file(file, [unpacked], store, problems)]
            except UnsafeArchive as error:
                problems.append(str(error))
        if not missing:
            return "all files have their digests"
    if problems:
        raise SourceFailed("failed", "; ".join(dict.fromkeys(problems)))
    lacking = f"it does not hold {_listed([file.name for file in missing])}"
    if len(missing) == wanted:
        raise SourceFailed("absent", lacking)
    return f"{wanted - len(missing)} of {wanted} files have their digests; {lacking}"


def _take_file(file: DataFile, folders: list[Path], store: Store, problems: list[str]) -> bool:
    """Store `file` from the first decoder whose bytes have its digest; else say in `problems` what was wrong."""
    for folder in folders:
        for decoder in store.entry.decoders:
            try:
                for found_as, content in DECODERS[decoder](folder, file.name):
                    if len(content) != file.size:
                        problems.append(f"{found_as} holds {len(content)} bytes instead of {file.size}")
                    elif (problem := mismatch(found_as, sha256_of_bytes(content), file.sha256)) is not None:
                        problems.append(problem)
                    else:
                        store.keep(file, content)
                        return True
            except Undecodable as error:
                problems.append(str(error))
    return False


def _names(files: Iterable[DataFile]) -> set[str]:
    return {file.name for file in files}


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _remedy(name: str, entry: Entry, store: Store) -> str:
    """The two ways out: a mirror, or the files placed by hand."""
    mirrors = [folder for source in entry.sources if isinstance(source, Mirror) for folder in source.folders]
    names = _listed([file.name for file in entry.files])
    archives = f", or {' or '.join(entry.archives)}" if entry.archives else ""
    by_mirror = f"set {MIRROR} to a folder that holds {mirrors[0] if mirrors else name}/ with" if mirrors else ""
    by_hand = f"place them in {shown(store.folder)}"
    files = f"{names} (plain or .gz{archives}; names and digests stand in data/registry.yaml)"
    if by_mirror:
        return f"Two ways out: {by_mirror} {files}; or {by_hand}. Then run the command again."
    return f"The way out: {by_hand}: {files}. Then run the command again."
