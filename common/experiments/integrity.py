"""Whether a run folder holds what its outcome.json states.

Records and provenance are small: their digests are held against outcome.json, once a process for each state of the
files. Artifacts may be large: their sizes are looked at, and their digests checked where they are read or taken over.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import sha256_of, write_atomically

MARK = "damaged"
"""A file in the folder of a run whose artifact was found damaged where it was read; it holds the sentence."""

_KINDS: Mapping[str, type] = {
    "status": str,
    "reason": str,
    "inputs": dict,
    "used": dict,
    "artifacts": dict,
    "records": str,
}
_FACTS = ("parameters", "inputs", "commit", "dirty", "locks", "versions", "device", "finished", "seconds")
_FILES = ("outcome.json", "records.jsonl", "provenance.json", MARK)

_State = tuple[tuple[int, ...] | None, ...]


class Damaged(UserError):
    """Something that a run starts from does not have the digest that was stated when it was made."""


@dataclass(frozen=True)
class Examined:
    """What a run folder holds.

    Attributes:
        content: of outcome.json, None where there is none or it cannot be read.
        damage: what of the folder is not as outcome.json states, None if nothing is.
    """

    content: Mapping[str, Any] | None = None
    damage: str | None = None


_examined: dict[Path, tuple[_State, tuple[str, ...], Examined]] = {}
_verified: dict[Path, tuple[_State, str]] = {}


def examined(folder: Path) -> Examined:
    """What a run folder holds, looked at again only where one of its files has changed since."""
    before = _examined.get(folder)
    if before is not None and _state(folder, before[1]) == before[0]:
        return before[2]
    state = _state(folder, _FILES)
    found = _examine(folder)
    artifacts = tuple(f"artifacts/{name}" for name in (found.content or {}).get("artifacts", ()))
    _examined[folder] = (state + _state(folder, artifacts), _FILES + artifacts, found)
    return found


def difference(folder: Path, content: Mapping[str, Any]) -> str | None:
    """What of a run folder differs from its outcome.json, every byte looked at; None if nothing does."""
    for name, digest in content["artifacts"].items():
        if problem := _wrong(folder, f"artifacts/{name}", digest):
            return problem
    return _wrong(folder, "records.jsonl", content["records"]) or _provenance_damage(folder, content)


def artifact(folder: Path, name: str, digest: str) -> Path:
    """The artifact `name` of a run folder, its digest checked.

    Raises:
        Damaged: it has another one; the folder is marked, so that its run is computed again.
    """
    path = folder / "artifacts" / name
    state = _state(path.parent, (name,))
    if _verified.get(path) != (state, digest):
        if problem := _wrong(folder, f"artifacts/{name}", digest):
            with suppress(OSError):
                write_atomically(folder / MARK, problem)
            raise Damaged(problem)
        _verified[path] = (state, digest)
    return path


def _state(folder: Path, names: Iterable[str]) -> _State:
    """Inode, size and times of files: equal as long as nobody has written to them."""
    return tuple(_file_state(folder / name) for name in names)


def _file_state(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _examine(folder: Path) -> Examined:
    try:
        text = (folder / "outcome.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Examined()
    except OSError as error:
        return Examined(None, f"its outcome.json cannot be read ({error.strerror})")
    try:
        content = json.loads(text)
    except ValueError:
        return Examined(None, "its outcome.json is not JSON")
    if not isinstance(content, dict):
        return Examined(None, "its outcome.json is no outcome of a run")
    if lacks := [name for name, kind in _KINDS.items() if not isinstance(content.get(name), kind)]:
        return Examined(None, f"its outcome.json states no {' and no '.join(lacks)}")
    return Examined(content, _damage(folder, content))


def _damage(folder: Path, content: Mapping[str, Any]) -> str | None:
    with suppress(OSError):
        return (folder / MARK).read_text(encoding="utf-8", errors="replace")
    return (
        _wrong(folder, "records.jsonl", content["records"])
        or _provenance_damage(folder, content)
        or _wrong_size(folder, content)
    )


def _wrong(folder: Path, name: str, digest: str) -> str | None:
    try:
        if sha256_of(folder / name) == digest:
            return None
    except FileNotFoundError:
        return f"its {name} is missing"
    except OSError as error:
        return f"its {name} cannot be read ({error.strerror})"
    return f"its {name} does not have the digest that outcome.json states"


def _wrong_size(folder: Path, content: Mapping[str, Any]) -> str | None:
    """Of the artifacts; without a stated size (as older runs are) an empty one is damaged."""
    sizes = content.get("sizes") or {}
    for name in content["artifacts"]:
        state = _file_state(folder / "artifacts" / name)
        if state is None:
            return f"its artifacts/{name} is missing"
        if state[1] != sizes.get(name, state[1]) or not state[1]:
            return f"its artifacts/{name} does not have the size that outcome.json states"
    return None


def _provenance_damage(folder: Path, content: Mapping[str, Any]) -> str | None:
    if digest := content.get("provenance"):
        return _wrong(folder, "provenance.json", digest)
    try:  # an older run: no digest is stated, so that only what contradicts can be found
        facts = json.loads((folder / "provenance.json").read_bytes())
    except FileNotFoundError:
        return "its provenance.json is missing"
    except OSError as error:
        return f"its provenance.json cannot be read ({error.strerror})"
    except ValueError:
        return "its provenance.json is not JSON"
    if not isinstance(facts, dict) or any(name not in facts for name in _FACTS):
        return "its provenance.json does not tell where it comes from"
    return "its provenance.json contradicts outcome.json" if _contradicts(facts["inputs"], content) else None


def _contradicts(inputs: Any, content: Mapping[str, Any]) -> bool:
    """Whether other inputs are stated; the code may be one that `replicate accept` has replaced since."""
    stated = content["inputs"]
    codes = {stated.get("code"), *(entry.get("from") for entry in content.get("accepted") or ())}
    return (
        not isinstance(inputs, dict)
        or inputs.get("code") not in codes
        or any(inputs.get(name) != stated.get(name) for name in ("parameters", "data"))
    )
