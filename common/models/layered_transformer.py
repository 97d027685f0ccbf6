"""One member of a `ModularTransformer` out of PyTorch's layers, for measures that need to know the layers."""

import math

import torch
from torch import nn

from common.models.modular_transformer import ModularTransformer


class LayeredTransformer(nn.Module):
    """The network of one member with each parameter in a layer that is used once.

    Such parameters have traces of the Hessian from one pass for all examples (`common.hessian.trace`, sample signs),
    where parameters used by hand take a pass for each probe. Training is cheaper in `ModularTransformer`.

    Shapes:
        input int64 [n, 2], output [n, modulus].
    """

    positions: torch.Tensor

    def __init__(self, model: ModularTransformer, member: int) -> None:
        """A copy of the weights of one member."""
        super().__init__()
        self.modulus = model.modulus
        table = model.tokens[member].detach()
        self.tokens = nn.Embedding(*table.shape).to(table)
        self.register_buffer("positions", model.get_buffer("positions").clone())
        self.blocks = nn.ModuleList(_Block(block, member, model.heads) for block in model.blocks)
        self.output = _linear(model.output[member])
        with torch.no_grad():
            self.tokens.weight.copy_(table)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Logits of pairs (a, b)."""
        first, second = pairs.unbind(-1)
        operation, equals = torch.full_like(first, self.modulus), torch.full_like(first, self.modulus + 1)
        states = self.tokens(torch.stack([first, operation, second, equals], dim=-1)) + self.positions
        for number, block in enumerate(self.blocks, start=1):
            states = block(states, last=number == len(self.blocks))
        logits: torch.Tensor = self.output(states[:, -1])
        return logits


class _Block(nn.Module):
    """Attention and ReLU layer, LayerNorm after each residual sum; of the last block the last position only."""

    def __init__(self, block: nn.Module, member: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.keys_values, self.mix, self.expand, self.contract = (
            _linear(getattr(block, name)[member]) for name in ("query", "keys_values", "mix", "expand", "contract")
        )
        self.norm_attention, self.norm_hidden = (
            _norm(getattr(block, name), member) for name in ("norm_attention", "norm_hidden")
        )

    def forward(self, states: torch.Tensor, *, last: bool) -> torch.Tensor:
        """States [n, positions, width] after the block, [n, 1, width] if it is the last."""
        seen = states[:, -1:] if last else states
        key, value = (self._by_head(part) for part in self.keys_values(states).chunk(2, dim=-1))
        scores = self._by_head(self.query(seen)) @ key.transpose(-1, -2) / math.sqrt(key.shape[-1])
        if not last:
            length = states.shape[1]
            future = torch.ones(length, length, dtype=torch.bool, device=states.device).triu(1)
            scores = scores.masked_fill(future, -math.inf)
        mixed = (torch.softmax(scores, dim=-1) @ value).transpose(1, 2).flatten(2)
        hidden = self.norm_attention(seen + self.mix(mixed))
        normal: torch.Tensor = self.norm_hidden(hidden + self.contract(torch.relu(self.expand(hidden))))
        return normal

    def _by_head(self, values: torch.Tensor) -> torch.Tensor:
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # type: ignore[no-any-return]


@torch.no_grad()
def _linear(weight: torch.Tensor) -> nn.Linear:
    """x ↦ x W for the matrix W [inputs, outputs]."""
    inputs, outputs = weight.shape
    layer = nn.Linear(inputs, outputs, bias=False).to(weight)
    layer.weight.copy_(weight.T)
    return layer


@torch.no_grad()
def _norm(norm: nn.Module, member: int) -> nn.LayerNorm:
    gain, shift = (getattr(norm, name)[member, 0] for name in ("gain", "shift"))
    layer = nn.LayerNorm(len(gain)).to(gain)
    layer.weight.copy_(gain)
    layer.bias.copy_(shift)
    return layer
