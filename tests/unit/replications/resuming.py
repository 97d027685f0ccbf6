"""A run that is stopped and goes on is held against one that was not."""

from collections.abc import Callable
from typing import Any

import torch

from tests.context import MemoryContext


def same_when_resumed(run: Callable[[MemoryContext], None], *, times: int = 1000, **given: Any) -> MemoryContext:
    """The context of `run` in one go; `run` begun at its checkpoints records and keeps the same bits.

    Args:
        times: at how many checkpoints, evenly spread, or about so many; at all if there are fewer.
        given: what each `MemoryContext` is given.
    """
    whole = MemoryContext(**given)
    run(whole)
    assert whole.rows
    assert len(whole.checkpoints) > 1
    for checkpoint in whole.checkpoints[:: max(1, len(whole.checkpoints) // times)]:
        again = MemoryContext(**given, begun=checkpoint)
        run(again)
        assert again.rows == whole.rows
        for mine, kept in zip(again.artifacts, whole.artifacts, strict=True):
            assert all(torch.equal(mine.tensors[name], tensor) for name, tensor in kept.tensors.items())
    return whole
