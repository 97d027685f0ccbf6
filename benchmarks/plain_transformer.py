"""The transformer of the grokking replication as one would first write it: every position of every example."""

import math
from typing import Any

import torch
from torch import nn

from common.models import ModularTransformer


class PlainBlock(nn.Module):
    """Causal attention and ReLU layer with LayerNorm after each residual sum."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.expand, self.contract = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
        self.norm_attention, self.norm_hidden = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Vectors [n, positions, width] after the block."""
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ value
        x = self.norm_attention(x + self.mix(mixed.transpose(1, 2).flatten(2)))
        normal: torch.Tensor = self.norm_hidden(x + self.contract(torch.relu(self.expand(x))))
        return normal


class PlainTransformer(nn.Module):
    """Tokens a, ∘, b, = through all blocks at all positions; logits [n, modulus] at the last."""

    positions: torch.Tensor

    def __init__(self, modulus: int, *, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.modulus = modulus
        self.tokens = nn.Embedding(modulus + 2, width)
        self.register_buffer("positions", torch.zeros(4, width))
        self.blocks = nn.Sequential(*(PlainBlock(width, heads) for _ in range(layers)))
        self.output = nn.Linear(width, modulus, bias=False)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Logits [n, modulus] of pairs [n, 2]."""
        first, second = pairs.unbind(-1)
        operation, equals = torch.full_like(first, self.modulus), torch.full_like(first, self.modulus + 1)
        tokens = torch.stack([first, operation, second, equals], dim=-1)
        logits: torch.Tensor = self.output(self.blocks(self.tokens(tokens) + self.positions)[:, -1])
        return logits

    @torch.no_grad()
    def copy_member(self, model: ModularTransformer, member: int) -> "PlainTransformer":
        """Take over the weights of one member."""
        self.tokens.weight.copy_(model.tokens[member])
        self.positions.copy_(model.get_buffer("positions"))
        self.output.weight.copy_(model.output[member].T)
        mine: list[Any] = list(self.blocks)
        theirs: list[Any] = list(model.blocks)
        for plain, block in zip(mine, theirs, strict=True):
            key, value = block.keys_values[member].chunk(2, dim=-1)
            plain.key.weight.copy_(key.T)
            plain.value.weight.copy_(value.T)
            for name in ("query", "mix", "expand", "contract"):
                getattr(plain, name).weight.copy_(getattr(block, name)[member].T)
            for name in ("norm_attention", "norm_hidden"):
                norm, ours = getattr(plain, name), getattr(block, name)
                norm.weight.copy_(ours.gain[member, 0])
                norm.bias.copy_(ours.shift[member, 0])
        return self
