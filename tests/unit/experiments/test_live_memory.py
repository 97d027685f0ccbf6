"""Bytes of live tensors, counted."""

import torch

from common.experiments.live_memory import LiveMemory

CPU = torch.device("cpu")


def test_what_is_freed_counts_no_more() -> None:
    with LiveMemory(CPU) as memory:
        total = (torch.ones(1000) + 1).sum()
    assert (memory.live, memory.peak) == (4, 8000)
    del total
    assert memory.live == 0


def test_a_view_holds_nothing_of_its_own_and_what_was_there_counts_once_touched() -> None:
    before = torch.ones(10, 100)
    with LiveMemory(CPU) as memory:
        row = before[3]
        assert memory.live == 4000
        del row
        assert memory.live == 4000
    assert LiveMemory(torch.device("cuda")).peak == 0


def test_a_step_of_adam_holds_weights_gradients_and_two_moments() -> None:
    weights = torch.nn.Parameter(torch.ones(1000))
    steps = torch.optim.AdamW([weights], foreach=False)
    with LiveMemory(CPU) as memory:
        for _ in range(2):
            (weights * 2).sum().backward()
            steps.step()
    assert memory.live == 4 * 4000 + 4  # and the count of steps


def test_members_of_vmap_are_counted() -> None:
    with LiveMemory(CPU) as memory:
        found = torch.func.vmap(lambda row: row * 2)(torch.ones(5, 100))
    assert memory.live == found.numel() * 4
