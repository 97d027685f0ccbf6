"""A two-layer ReLU network without biases at k sets of weights at once: its losses.

Weights are rows [k, m] (first layer, then second); images are [k, n, inputs], targets [k, n]. Results have the type of
the weights. Its curvature is in `two_layer_curvature`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional

LossName = Literal["cross_entropy", "probability"]
CHUNK = 1000
"""Images a pass takes at once."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of inputs, hidden units and classes."""

    inputs: int
    width: int
    classes: int

    @property
    def first(self) -> int:
        """Weights of the first layer."""
        return self.inputs * self.width

    @property
    def parameters(self) -> int:
        """All weights, m."""
        return self.first + self.width * self.classes

    def split(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Views [k, width, inputs] and [k, classes, width] of rows [k, m]."""
        first, second = weights[:, : self.first], weights[:, self.first :]
        return first.view(-1, self.width, self.inputs), second.view(-1, self.classes, self.width)

    def rescale(self, weights: torch.Tensor, alpha: float) -> torch.Tensor:
        """(α w¹, w²/α): the same function (Wang et al. 2018, eq. 22)."""
        return torch.cat([alpha * weights[:, : self.first], weights[:, self.first :] / alpha], 1)

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """One row [m] of initial weights from U(±1/√fan_in), PyTorch's default for linear layers."""
        first = torch.empty(self.first).uniform_(-1, 1, generator=generator) / math.sqrt(self.inputs)
        second = torch.empty(self.width * self.classes).uniform_(-1, 1, generator=generator) / math.sqrt(self.width)
        return torch.cat([first, second])


@dataclass(frozen=True)
class Problem:
    """A network's sizes and the images and targets of each of k tasks."""

    sizes: Sizes
    images: torch.Tensor
    targets: torch.Tensor

    def chunks(self) -> list["Problem"]:
        """The same in parts of at most `CHUNK` images."""
        parts = zip(torch.split(self.images, CHUNK, 1), torch.split(self.targets, CHUNK, 1), strict=True)
        return [Problem(self.sizes, images, targets) for images, targets in parts]

    def first_images(self, count: int) -> "Problem":
        """The first `count` images of each task."""
        return Problem(self.sizes, self.images[:, :count], self.targets[:, :count])

    def hidden(self, weights: torch.Tensor) -> torch.Tensor:
        """Values of the hidden units, [k, n, width]."""
        first, _ = self.sizes.split(weights)
        return functional.relu(self.images.to(weights.dtype) @ first.mT)

    def logits(self, weights: torch.Tensor) -> torch.Tensor:
        """[k, n, classes]."""
        _, second = self.sizes.split(weights)
        return self.hidden(weights) @ second.mT

    def losses(self, weights: torch.Tensor, loss: LossName = "cross_entropy") -> torch.Tensor:
        """Loss of each example, [k, n]: cross-entropy in nats, or 1 − p_y, which lies in [0, 1]."""
        target = self.targets[..., None]
        logarithms = self.logits(weights).log_softmax(-1).gather(-1, target)[..., 0]
        return -logarithms if loss == "cross_entropy" else -torch.expm1(logarithms)

    @torch.no_grad()
    def mean_loss(self, weights: torch.Tensor, loss: LossName = "cross_entropy") -> torch.Tensor:
        """Mean over the images, [k]."""
        return torch.cat([part.losses(weights, loss) for part in self.chunks()], 1).mean(1)
