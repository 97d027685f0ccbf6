"""One reading for all who ask for the same data set in a process, never at the price of another one's bytes."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from common.datasets import Dataset, Split, shared


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What the cache holds, and how often it was read."""
    split = Split("digits/train", torch.zeros(2, 1, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    disk = SimpleNamespace(digest="one", reads=0)

    def load(name: str) -> Dataset:
        disk.reads += 1
        train, test = (replace(split, inputs=torch.zeros(2, 1, dtype=torch.uint8)) for _ in range(2))
        return Dataset(name, "Digits", 1, disk.digest, train, test)

    monkeypatch.setattr(shared, "_last", [])
    monkeypatch.setattr(shared, "load", load)
    monkeypatch.setattr(shared, "digest", lambda name: disk.digest)
    return disk


def test_a_data_set_is_read_once_while_it_is_asked_for_again(disk: Any) -> None:
    assert shared.shared("digits") is shared.shared("digits")
    assert disk.reads == 1
    shared.shared("letters")
    shared.shared("digits")
    assert disk.reads == 3


def test_other_bytes_on_disk_are_read(disk: Any) -> None:
    shared.shared("digits")
    disk.digest = "two"
    assert shared.shared("digits").digest == "two"


def test_who_writes_to_a_data_set_spoils_it_for_nobody(disk: Any) -> None:
    shared.shared("digits").train.inputs[:1].flatten(1).add_(1)
    assert int(shared.shared("digits").train.inputs.sum()) == 0
    assert disk.reads == 2
