"""The networks that the toolkit is measured on, briefly trained on made-up data."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from common.models.imagenet_resnet import BasicBlock


class Attention(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        parts = self.projections(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        weights = scores.softmax(-1)
        x = x + self.output((weights @ value).transpose(1, 2).reshape(n, length, width))
        result: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return result


class Transformer(nn.Module):
    """Two blocks of width 128 over three tokens; the last position is read out."""

    def __init__(self, tokens: int = 98, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.positions = nn.Embedding(3, width)
        self.blocks = nn.Sequential(Attention(width, 4), Attention(width, 4))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape)
        hidden = self.blocks(self.embedding(x) + self.positions(places))
        result: torch.Tensor = self.readout(self.norm(hidden)[:, -1])
        return result


def mlp() -> nn.Module:
    """784-256-256-10, tanh."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 10)
    )


def cnn() -> nn.Module:
    """Two convolutions and two linear layers, 220 thousand parameters, ReLU and max-pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 60),
        nn.ReLU(),
        nn.Linear(60, 10),
    )


def resnet20() -> nn.Module:
    """ResNet-20 for 32×32 images."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for after, stride in ((16, 1), (32, 2), (64, 2)):
        for number in range(3):
            layers.append(BasicBlock(before, after, stride=stride if number == 0 else 1))
            before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def vgg() -> nn.Module:
    """Five convolutions and a linear layer, 45 thousand parameters, ReLU and max-pooling."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 16), (0, 0), (16, 32), (32, 32), (0, 0), (32, 64), (0, 0)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()] if before else [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10))


class GroupNormBlock(nn.Module):
    """A basic residual block whose normalisation is by groups of eight channels."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(after // 8, after), nn.GroupNorm(after // 8, after)
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norm1(self.first(x)))
        return functional.relu(self.norm2(self.second(inner)) + self.shortcut(x))


def resnet8() -> nn.Module:
    """ResNet-8 with GroupNorm for 32×32 images, 78 thousand parameters."""
    blocks = [GroupNormBlock(16, 16, 1), GroupNormBlock(16, 32, 2), GroupNormBlock(32, 64, 2)]
    first = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(2, 16), nn.ReLU())
    return nn.Sequential(first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class MixerBlock(nn.Module):
    """Layers across patches, then across channels (Tolstikhin et al. 2021)."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.within = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        result: torch.Tensor = x + self.within(self.norm2(x))
        return result


class Mixer(nn.Module):
    """MLP-Mixer on 32×32 images in patches of 8×8: two blocks of width 64, 82 thousand parameters."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.Sequential(MixerBlock(16, width), MixerBlock(16, width))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
        result: torch.Tensor = self.readout(self.norm(hidden).mean(1))
        return result


class GPT(nn.Module):
    """A causal transformer whose readout is its embedding: two blocks of width 48 over 16 tokens, 60 thousand
    parameters; scores [n, vocabulary, length] of each next token."""

    def __init__(self, vocabulary: int = 64, width: int = 48, length: int = 16) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Attention(width, 4, causal=True), Attention(width, 4, causal=True))
        self.norm, self.readout = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.readout.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape)
        hidden = self.blocks(self.embedding(x) + self.positions(places))
        result: torch.Tensor = self.readout(self.norm(hidden)).transpose(1, 2)
        return result


class Recurrent(nn.Module):
    """An LSTM of width 64 over the rows of an image, 25 thousand parameters; the last state is read out."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.lstm, self.readout = nn.LSTM(28, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.readout(self.lstm(x.squeeze(1))[0][:, -1])
        return result


MORE_ON_A_GPU = 4
"""How many times as many examples a GPU gets, all of them at once."""


@dataclass(frozen=True)
class Workload:
    """A trained network with data; `chunk` is what all tools take at once."""

    name: str
    model: nn.Module
    inputs: torch.Tensor
    targets: torch.Tensor
    chunk: int


def images(count: int, channels: int, side: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Smooth class patterns under noise."""
    patterns = functional.interpolate(torch.randn(10, channels, 7, 7, generator=source), size=side, mode="bilinear")
    targets = torch.randint(0, 10, (count,), generator=source)
    noise = torch.randn(count, channels, side, side, generator=source)
    return patterns[targets] + noise, targets


def tokens(count: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """a + b modulo 97, with a third token for '='."""
    pair = torch.randint(0, 97, (count, 2), generator=source)
    return torch.cat([pair, torch.full((count, 1), 97)], dim=1), pair.sum(1) % 97


def text(count: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Sixteen tokens and what follows each: a walk modulo 64 whose steps are 1, 2 or 3."""
    steps = torch.randint(1, 4, (count, 17), generator=source)
    walk = (torch.randint(0, 64, (count, 1), generator=source) + steps.cumsum(1)) % 64
    return walk[:, :-1], walk[:, 1:]


_MAKERS: dict[str, tuple[Callable[[], nn.Module], int, int, int]] = {
    "mlp": (mlp, 2048, 2048, 30),
    "cnn": (cnn, 512, 256, 10),
    "vgg": (vgg, 256, 64, 10),
    "resnet20": (resnet20, 128, 64, 4),
    "resnet8 GroupNorm": (resnet8, 256, 64, 10),
    "transformer": (Transformer, 2048, 2048, 300),
    "mixer": (Mixer, 512, 512, 30),
    "gpt": (GPT, 256, 256, 100),
    "lstm": (Recurrent, 512, 512, 30),
}
"""Maker, examples, examples at once, steps of training."""


def workload(name: str, *, count: int | None = None, device: str = "cpu") -> Workload:
    """One of `_MAKERS` on a device, after a few steps of training on the CPU."""
    torch.manual_seed(0)
    source = torch.Generator().manual_seed(0)
    maker, usual, chunk, steps = _MAKERS[name]
    model, count = maker(), count or usual * (1 if device == "cpu" else MORE_ON_A_GPU)
    if name in ("transformer", "gpt"):
        inputs, targets = tokens(count, source) if name == "transformer" else text(count, source)
        optimiser: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        coloured = name in ("vgg", "resnet20", "resnet8 GroupNorm", "mixer")
        inputs, targets = images(count, 3 if coloured else 1, 32 if coloured else 28, source)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        chosen = torch.randint(0, count, (128,), generator=source)
        optimiser.zero_grad()
        functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        optimiser.step()
    optimiser.zero_grad()
    at_once = chunk if device == "cpu" else count
    return Workload(name, model.eval().to(device), inputs.to(device), targets.to(device), at_once)
