"""Runs computed one after the other, and arms of controls."""

import pytest
import torch

from common.experiments.context import OutOfTime
from common.experiments.controls import ControlArm, shuffled
from common.experiments.one_by_one import one_by_one
from tests.context import MemoryContext

RUNS = [ControlArm(seed=seed) for seed in range(4)]


def seeds(context: MemoryContext) -> list[int]:
    found = []
    for run in one_by_one(RUNS, context):
        found.append(run.seed)
        context.record(run, value=run.seed)
    return found


def test_every_run_is_given_once_and_in_order() -> None:
    assert seeds(MemoryContext()) == [0, 1, 2, 3]


def test_after_an_interruption_only_what_is_left_is_given() -> None:
    stopped = MemoryContext(stop_at=2)
    with pytest.raises(OutOfTime):
        seeds(stopped)
    resumed = MemoryContext(begun=stopped.checkpoints[-1])
    assert seeds(resumed) == [2, 3]
    assert [row["value"] for row in resumed.rows] == [0, 1, 2, 3]


def test_shuffled_targets_are_the_same_in_another_order() -> None:
    targets = torch.arange(50)
    moved = shuffled(targets, torch.Generator().manual_seed(0))
    assert torch.equal(moved.sort().values, targets)
    assert not torch.equal(moved, targets)
