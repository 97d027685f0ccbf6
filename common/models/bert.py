"""BERT and its distilled kin (Devlin et al. 2019) as a chain of stages, to be cut into a frozen and a trained part.

The stages pass one tensor on. Between layers it is [n, length, width + 1]: hidden states and, as the last channel,
1 where a token stands and 0 where the row was filled up. The last layer attends from the first position alone, which
is the only one that the pooler reads. Attention consists of plain products, so that it can be differentiated twice.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-12
"""Added to the variance in LayerNorm."""


@dataclass(frozen=True)
class BertSize:
    """Layers, width of the hidden states, heads, width inside of the feed-forward part, and what is counted."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int = 30_522
    positions: int = 512
    segments: int = 2


MINILM_L6 = BertSize(layers=6, width=384, heads=12, inner=1536)
BERT_BASE = BertSize(layers=12, width=768, heads=12, inner=3072)


def bert(size: BertSize) -> nn.Sequential:
    """Embedding, layers (the last one as attention and feed-forward part), pooler: `size.layers` + 3 stages.

    Shapes:
        input int64 [n, 3, length]: tokens, mask (1 or 0), segments. Output [n, width].
    """
    whole = [BertLayer(size) for _ in range(size.layers - 1)]
    return nn.Sequential(BertEmbedding(size), *whole, FirstAttention(size), FeedForward(size), Pooler(size.width))


def load_bert(network: nn.Sequential, weights: Mapping[str, Tensor]) -> nn.Sequential:
    """Fill `bert(size)` with weights under the names of the official files (gamma and beta, or weight and bias).

    Raises:
        ValueError: a weight is missing or of another shape.
    """
    named = {_modern(name): tensor for name, tensor in weights.items()}
    wanted = {name: _official(name, len(network)) for name in network.state_dict()}
    missing = sorted(set(wanted.values()) - named.keys())
    if missing:
        raise ValueError(f"The weights hold no {missing[0]!r}: they are not those of this encoder.")
    try:
        network.load_state_dict({name: named[official] for name, official in wanted.items()})
    except RuntimeError as error:
        raise ValueError(f"The weights do not fit this encoder: {error}") from error
    return network


def bert_weights(network: nn.Sequential) -> dict[str, Tensor]:
    """The weights of `bert(size)` under the names of the official files: what `load_bert` reads."""
    return {_official(name, len(network)): tensor for name, tensor in network.state_dict().items()}


def _modern(name: str) -> str:
    name = name.removeprefix("bert.")
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


_PARTS = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.mix": "attention.output.dense",
    "attention.norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "feed_forward.norm": "output.LayerNorm",
}


def _official(name: str, stages: int) -> str:
    """The official name of a parameter: "7.expand.weight" to "encoder.layer.5.intermediate.dense.weight"."""
    place, _, rest = name.partition(".")
    stage, layers = int(place), stages - 3
    part, _, kind = rest.rpartition(".")
    if stage == 0:
        table = {"norm": "LayerNorm"}.get(part, f"{part}_embeddings")
        return f"embeddings.{table}.{kind}"
    if stage == stages - 1:
        return f"pooler.{part}.{kind}"
    if stage >= layers:
        part = f"{'attention' if stage == layers else 'feed_forward'}.{part}"
    return f"encoder.layer.{min(stage, layers) - 1}.{_PARTS[part]}.{kind}"


class BertEmbedding(nn.Module):
    """Vectors of word, position and segment, added and normalised; int64 [n, 3, length] to [n, length, width + 1]."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.word = nn.Embedding(size.vocabulary, size.width)
        self.position = nn.Embedding(size.positions, size.width)
        self.token_type = nn.Embedding(size.segments, size.width)
        self.norm = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, tokens: Tensor) -> Tensor:
        words, mask, segments = tokens.long().unbind(1)
        places = self.position.weight[: words.shape[1]]
        hidden = self.norm(self.word(words) + places + self.token_type(segments))
        return torch.cat([hidden, mask[..., None].to(hidden)], dim=-1)


class Attention(nn.Module):
    """Attention of several heads, residual sum, LayerNorm."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.query, self.key, self.value = (nn.Linear(size.width, size.width) for _ in range(3))
        self.mix = nn.Linear(size.width, size.width)
        self.norm = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, asking: Tensor, hidden: Tensor, mask: Tensor) -> Tensor:
        """From `asking` [n, k, width] to `hidden` [n, length, width] where `mask` [n, length] is not 0: [n, k, width].

        A mask between 0 and 1 weighs a position accordingly.
        """
        query, key, value = self._by_head(self.query(asking)), self._by_head(self.key(hidden)), self.value(hidden)
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        smallest = torch.finfo(mask.dtype).tiny
        weights = torch.softmax(scores + mask.clamp(min=smallest).log()[:, None, None, :], dim=-1)
        mixed = (weights @ self._by_head(value)).transpose(1, 2).flatten(-2)
        normal: Tensor = self.norm(asking + self.mix(mixed))
        return normal

    def _by_head(self, values: Tensor) -> Tensor:
        """[n, k, width] to [n, heads, k, width / heads]."""
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """GELU layer, residual sum, LayerNorm; [..., width] to [..., width]."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.expand, self.contract = nn.Linear(size.width, size.inner), nn.Linear(size.inner, size.width)
        self.norm = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, hidden: Tensor) -> Tensor:
        normal: Tensor = self.norm(hidden + self.contract(functional.gelu(self.expand(hidden))))
        return normal


class BertLayer(nn.Module):
    """Attention and feed-forward part; [n, length, width + 1] to the same."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(size), FeedForward(size)

    def forward(self, states: Tensor) -> Tensor:
        hidden, mask = states[..., :-1], states[..., -1]
        after = self.feed_forward(self.attention(hidden, hidden, mask))
        return torch.cat([after, mask[..., None]], dim=-1)


class FirstAttention(Attention):
    """Attention from the first position alone; [n, length, width + 1] to [n, width]."""

    def forward(self, states: Tensor) -> Tensor:  # type: ignore[override]
        hidden, mask = states[..., :-1], states[..., -1]
        first: Tensor = super().forward(hidden[:, :1], hidden, mask)[:, 0]
        return first


class Pooler(nn.Module):
    """Linear layer and tanh; [n, width] to [n, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, first: Tensor) -> Tensor:
        return torch.tanh(self.dense(first))
