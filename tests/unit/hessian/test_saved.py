"""What a recorded computation keeps for its derivative, in bytes."""

import torch
from torch import nn

from common.hessian.saved import saved_bytes


class Attention(nn.Module):
    """Queries, keys and values in one memory, of which each is kept for its own derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        queries, keys, values = self.qkv(inputs).chunk(3, dim=-1)
        return queries * keys * values


def test_parts_of_one_memory_add_up_and_the_same_part_counts_once() -> None:
    model, inputs = Attention(), torch.ones(5, 8)
    # inputs, and of the two products one factor each that is no part of qkv: queries · keys
    assert saved_bytes(lambda: model(inputs), model) == 4 * (5 * 8 + 5 * 24 + 5 * 8)
    whole = nn.Linear(8, 24)
    assert saved_bytes(lambda: whole(inputs).exp() + whole(inputs), whole) == 4 * (5 * 8 + 5 * 24)
