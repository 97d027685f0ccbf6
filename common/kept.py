"""What is read off files, kept between processes for as long as the files hold the same bytes."""

import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.files import write_atomically

FOLDER = Path(".kept")
"""Below the checkout; whoever deletes it loses a few seconds."""


def kept(root: Path | None, name: str, key: str, compute: Callable[[], Any]) -> Any:
    """What `compute()` gives, or gave when it was last asked with the same `key` (in this process or another).

    Args:
        root: the checkout; None where nothing can be kept.
        name: of the file that keeps it.
        key: digest of all that the value depends on, the computing code included.
        compute: gives a JSON-like value.
    """
    if root is None:
        return compute()
    path = root / FOLDER / f"{name}.json"
    with suppress(OSError, ValueError):  # absent, unreadable or damaged: computed again
        check, known, text = path.read_text().split("\n", 2)
        if known == key and check == _digest(key, text):
            return json.loads(text)
    value = compute()
    text = json.dumps(value)
    with suppress(OSError):
        write_atomically(path, f"{_digest(key, text)}\n{key}\n{text}")
    return value


def _digest(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def content_digest(paths: Iterable[Path]) -> str:
    """sha256 of the names and bytes of files; a missing one counts as such."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = path.read_bytes()
        except OSError:
            content = None
        one = "none" if content is None else hashlib.sha256(content).hexdigest()
        digest.update(f"{path}\n{one}\n".encode())
    return digest.hexdigest()
