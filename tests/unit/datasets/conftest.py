"""Small data sets with real files, fake package clients on PATH, and a cache of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.datasets import Registry
from tests.unit.datasets.dataset_files import described, idx


@pytest.fixture
def digits() -> dict[str, bytes]:
    """Decoded files of a small data set: 12 and 5 images of 4×3 pixels, three classes."""
    random = np.random.default_rng(0)
    content = {}
    for split, count in (("train", 12), ("test", 5)):
        content[f"{split}-images"] = idx(random.integers(0, 256, (count, 4, 3), dtype=np.uint8))
        content[f"{split}-labels"] = idx(np.arange(count, dtype=np.uint8) % 3)
    return content


@pytest.fixture
def registry(digits: dict[str, bytes]) -> Callable[..., Registry]:
    """A registry with `digits` alone, from the given sources."""

    def make(*sources: dict[str, Any], **changes: Any) -> Registry:
        entry = {
            "title": "Digits",
            "version": "1",
            "licence": "CC0",
            "citation": "none",
            "format": "idx",
            "classes": 3,
            "files": described(digits),
            "sources": list(sources),
            "splits": {"train": ["train-images", "train-labels"], "test": ["test-images", "test-labels"]},
        }
        return Registry.model_validate({"digits": {**entry, **changes}})

    return make


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; neither mirror nor package clients are in reach. Returns the folder of `digits`."""
    monkeypatch.setenv("REPLICATIONS_CACHE", str(tmp_path / "cache"))
    for name in ("REPLICATIONS_MIRROR", "REPLICATIONS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache" / "datasets" / "digits" / "1"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty mirror that `REPLICATIONS_MIRROR` names."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("REPLICATIONS_MIRROR", str(folder))
    return folder


@pytest.fixture
def client(tmp_path: Path, cache: Path) -> Callable[[str, str], Path]:
    """Put a shell script onto PATH as a package client; it notes each call. Returns the file of notes."""

    def install(name: str, body: str) -> Path:
        calls = tmp_path / f"{name}.calls"
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\necho "$*" >> {calls}\n{body}\n')
        script.chmod(0o755)
        return calls

    return install
