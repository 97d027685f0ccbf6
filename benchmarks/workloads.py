"""The four networks that the toolkit is measured on, briefly trained on made-up data."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from common.models.imagenet_resnet import BasicBlock


class Attention(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        parts = self.projections(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)).softmax(-1)
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


def workload(name: str, *, count: int | None = None) -> Workload:
    """'mlp', 'cnn', 'resnet20' or 'transformer', after a few steps of training."""
    torch.manual_seed(0)
    source = torch.Generator().manual_seed(0)
    makers: dict[str, tuple[Callable[[], nn.Module], int, int, int]] = {
        "mlp": (mlp, 2048, 2048, 30),
        "cnn": (cnn, 512, 256, 10),
        "resnet20": (resnet20, 128, 64, 4),
        "transformer": (Transformer, 2048, 2048, 300),
    }
    maker, usual, chunk, steps = makers[name]
    model, count = maker(), count or usual
    if name == "transformer":
        inputs, targets = tokens(count, source)
        optimiser: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        inputs, targets = images(count, 3 if name == "resnet20" else 1, 32 if name == "resnet20" else 28, source)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        chosen = torch.randint(0, count, (128,), generator=source)
        optimiser.zero_grad()
        functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        optimiser.step()
    optimiser.zero_grad()
    return Workload(name, model.eval(), inputs, targets, chunk)
