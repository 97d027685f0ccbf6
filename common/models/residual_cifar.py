"""Residual networks for 32 × 32 images, with and without their skip connections."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from common.models.residual import initialise_convolutions, residual_stages


class ResidualCifar(nn.Module):
    """The CIFAR network of He et al. 2016 of depth 6n + 2, any width, with or without skip connections.

    Three stages of n blocks with `width`, 2 `width` and 4 `width` channels; each block has two 3×3 convolutions with
    batch normalisation. Where a stage halves the image the shortcut takes every second pixel and pads with zero
    channels (He's option A), so that both variants have the same parameters: 269,722 at depth 20 and width 16.

    Shapes:
        input [n, channels, 32, 32] (any side divisible by 4), output (logits) [n, classes].

    Raises:
        ValueError: the depth is not 6n + 2 with n ≥ 1.
    """

    def __init__(
        self, depth: int = 20, *, width: int = 16, skip: bool = True, classes: int = 10, channels: int = 3
    ) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"depth {depth} is not 6n + 2 with n of at least 1 (8, 14, 20, …).")
        blocks = (depth - 2) // 6
        self.convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.normalisation = nn.BatchNorm2d(width)
        self.blocks = residual_stages(partial(ResidualBlock, skip=skip), width, width, blocks=blocks)
        self.output = nn.Linear(4 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of images [n, channels, height, width]."""
        features = functional.relu(self.normalisation(self.convolution(images)))
        logits: torch.Tensor = self.output(self.blocks(features).mean((2, 3)))
        return logits

    def initialise(self, generator: torch.Generator) -> None:
        """Draw convolutions from N(0, 2/fan_in) (He et al. 2015), the output layer as PyTorch does."""
        initialise_convolutions(self, generator, "fan_in_normal")


class ResidualBlock(nn.Module):
    """relu(x + norm(conv(relu(norm(conv x))))), or the same without x."""

    def __init__(self, into: int, out: int, *, stride: int, skip: bool) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(into, out, 3, stride=stride, padding=1, bias=False)
        self.normalisation1 = nn.BatchNorm2d(out)
        self.convolution2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.normalisation2 = nn.BatchNorm2d(out)
        self.skip, self.stride, self.added = skip, stride, out - into

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features [n, out, height/stride, width/stride] of features [n, into, height, width]."""
        features = functional.relu(self.normalisation1(self.convolution1(inputs)))
        features = self.normalisation2(self.convolution2(features))
        if not self.skip:
            return functional.relu(features)
        shortcut = inputs[:, :, :: self.stride, :: self.stride] if self.stride > 1 else inputs
        if self.added:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self.added))
        return functional.relu(features + shortcut)
