"""A small decoder-only transformer that reads a ∘ b = and predicts the answer, for several members at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import nn
from torch.nn import functional

Rows = Literal["one", "first", "second", "pair"]
"""What the rows of a tensor run over: nothing, values of a, values of b, or the examples."""

POSITIONS = 4  # a, the operation, b, the equals sign


@dataclass(frozen=True)
class _State:
    """Vectors of one position, one row for each distinct prefix: tensor [members, rows, …]."""

    values: torch.Tensor
    rows: Rows


class ModularTransformer(nn.Module):
    """Decoder-only transformer on the tokens a, ∘, b, = with logits over the `modulus` residues at the last one.

    The network of Power et al. 2022: each layer is causal attention and a ReLU layer of four times the width, a
    LayerNorm after each residual sum, no biases outside of LayerNorm. Positions are fixed sinusoids.

    What a position holds depends on the tokens up to it alone. So positions before b are computed once for each value
    of a and not for each example, keys and values of the first layer once for each token, and the last layer computes
    its queries and everything after them at the last position only. The results are those of the plain computation.

    Every parameter has the members as its first axis; members do not influence each other. Attention consists of
    plain products, so that it can be differentiated twice.

    Shapes:
        input int64 [members, n, 2] (the pairs a, b), output [members, n, modulus]. With one member [n, 2] gives
        [n, modulus], which is what `common.hessian` takes.
    """

    def __init__(self, modulus: int, *, layers: int, width: int, heads: int, members: int = 1) -> None:
        """
        Raises:
            ValueError: heads do not divide the width, or a number is not positive.
        """
        super().__init__()
        if min(modulus, layers, width, heads, members) < 1:
            raise ValueError("modulus, layers, width, heads and members must be positive.")
        if width % heads:
            raise ValueError(f"{heads} heads do not divide the width {width}.")
        self.modulus, self.layers, self.width, self.heads, self.members = modulus, layers, width, heads, members
        self.tokens = self._weight(modulus + 2, width)
        self.register_buffer("positions", _sinusoids(POSITIONS, width))
        self.blocks = nn.ModuleList(_Block(self) for _ in range(layers))
        self.output = self._weight(width, modulus)

    def _weight(self, *shape: int) -> nn.Parameter:
        return nn.Parameter(torch.zeros(self.members, *shape))

    @torch.no_grad()
    def initialise(self, generators: Sequence[torch.Generator]) -> Self:
        """Draw token vectors from N(0, 1) and matrices from U(-1/√fan_in, 1/√fan_in); a generator a member.

        These are the initial distributions of PyTorch's embeddings and linear layers.

        Raises:
            ValueError: another number of generators than members.
        """
        if len(generators) != self.members:
            raise ValueError(f"{len(generators)} generators for {self.members} members.")
        for name, parameter in self.named_parameters():
            if "norm" in name:
                continue
            for own, generator in zip(parameter, generators, strict=True):
                if name == "tokens":
                    draw = torch.randn(own.shape, generator=generator, dtype=own.dtype)
                else:
                    draw = torch.rand(own.shape, generator=generator, dtype=own.dtype).mul_(2).sub_(1)
                    draw /= math.sqrt(len(own))
                own.copy_(draw)
        return self

    @torch.no_grad()
    def member(self, index: int) -> "ModularTransformer":
        """A copy of one member as a network of its own."""
        alone = ModularTransformer(self.modulus, layers=self.layers, width=self.width, heads=self.heads)
        alone.to(self.tokens)
        for mine, its in zip(self.parameters(), alone.parameters(), strict=True):
            its.copy_(mine[index : index + 1])
        return alone

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Logits of pairs (a, b), each a residue 0 … modulus − 1.

        Raises:
            ValueError: a shape that does not fit the members.
        """
        alone = pairs.dim() == 2
        pairs = pairs.unsqueeze(0) if alone else pairs
        if len(pairs) != self.members or pairs.shape[-1] != 2:
            raise ValueError(f"expected pairs [{self.members}, n, 2], got {list(pairs.shape)}.")
        lookup = _Lookup(pairs, self.modulus)
        states = self._embedded()
        for number, block in enumerate(self.blocks, start=1):
            states = block(states, lookup, last=number == self.layers)
        logits = lookup.align(states[-1], "pair") @ self.output
        return logits[0] if alone else logits

    def _embedded(self) -> list[_State]:
        numbers, operation, equals = self.tokens.split([self.modulus, 1, 1], dim=1)
        tokens = (numbers, operation, numbers, equals)
        rows: tuple[Rows, ...] = ("first", "one", "second", "one")
        return [_State(tokens[place] + self.positions[place], rows[place]) for place in range(4)]  # type: ignore[index]


def _sinusoids(positions: int, width: int) -> torch.Tensor:
    """[positions, width]: sines in even, cosines in odd coordinates, wavelengths from 2π to 20,000 π."""
    coordinate = torch.arange(width)
    angles = torch.arange(positions)[:, None] / 10_000 ** (2 * (coordinate // 2) / width)
    return torch.where(coordinate % 2 == 0, angles.sin(), angles.cos())


class _Lookup:
    """From rows that stand for values of a or b to examples."""

    def __init__(self, pairs: torch.Tensor, modulus: int) -> None:
        shift = modulus * torch.arange(len(pairs), device=pairs.device)[:, None]
        self.index = {"first": pairs[..., 0] + shift, "second": pairs[..., 1] + shift}

    def align(self, state: _State, rows: Rows) -> torch.Tensor:
        """The values with one row for each of `rows`; those with a single row are left to broadcasting."""
        if state.rows in (rows, "one"):
            return state.values
        return functional.embedding(self.index[state.rows], state.values.flatten(0, 1))


def _join(*rows: Rows) -> Rows:
    """What rows must run over for all of these to be told apart."""
    distinct = set(rows) - {"one"}
    return "pair" if len(distinct) > 1 else distinct.pop() if distinct else "one"


class _Block(nn.Module):
    """Attention and ReLU layer, LayerNorm after each residual sum."""

    def __init__(self, network: ModularTransformer) -> None:
        super().__init__()
        width, members = network.width, network.members
        self.heads = network.heads
        self.query, self.keys_values = network._weight(width, width), network._weight(width, 2 * width)
        self.mix = network._weight(width, width)
        self.expand, self.contract = network._weight(width, 4 * width), network._weight(4 * width, width)
        self.norm_attention, self.norm_hidden = _Norm(members, width), _Norm(members, width)

    def forward(self, states: list[_State], lookup: _Lookup, *, last: bool) -> list[_State]:
        """All positions after the block, of the last block the last position only."""
        keys, values = [], []
        for state in states:
            key, value = (state.values @ self.keys_values).chunk(2, dim=-1)
            keys.append(_State(key, state.rows))
            values.append(_State(value, state.rows))
        places = range(len(states) - 1, len(states)) if last else range(len(states))
        return [self._position(states[: at + 1], keys[: at + 1], values[: at + 1], lookup) for at in places]

    def _position(self, states: list[_State], keys: list[_State], values: list[_State], lookup: _Lookup) -> _State:
        rows = _join(*(state.rows for state in states))
        query = _State(states[-1].values @ self.query, states[-1].rows)
        scores = [lookup.align(self._score(query, key, lookup), rows) for key in keys]
        weights = torch.softmax(torch.stack(torch.broadcast_tensors(*scores), dim=1), dim=1)
        mixed: torch.Tensor = sum(  # type: ignore[assignment]
            weights[:, place].unsqueeze(-1) * self._by_head(lookup.align(value, rows))
            for place, value in enumerate(values)
        )
        hidden = self.norm_attention(lookup.align(states[-1], rows) + mixed.flatten(-2) @ self.mix)
        return _State(self.norm_hidden(hidden + torch.relu(hidden @ self.expand) @ self.contract), rows)

    def _score(self, query: _State, key: _State, lookup: _Lookup) -> _State:
        """Scaled products of queries and keys [members, rows, heads], at the fewest rows that tell them apart."""
        rows = _join(query.rows, key.rows)
        product = self._by_head(lookup.align(query, rows) * lookup.align(key, rows)).sum(-1)
        return _State(product / math.sqrt(query.values.shape[-1] // self.heads), rows)

    def _by_head(self, values: torch.Tensor) -> torch.Tensor:
        return values.unflatten(-1, (self.heads, -1))  # type: ignore[no-any-return]


class _Norm(nn.Module):
    """LayerNorm with gain and shift of each member."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(members, 1, width))
        self.shift = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values [members, rows, width], each row with mean 0 and variance 1 before gain and shift."""
        normal: torch.Tensor = functional.layer_norm(values, values.shape[-1:])
        return normal * self.gain + self.shift
