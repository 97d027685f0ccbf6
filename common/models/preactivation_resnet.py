"""Residual networks with pre-activation bottleneck blocks for small colour images (He et al. 2016)."""

import torch
from torch import nn
from torch.nn import functional

from common.models.residual import PreactivationNetwork, initialise_convolutions, residual_stages, thinned

EXPANSION = 4


class PreactivationResNet(PreactivationNetwork):
    """PreResNet of depth 9n + 2: 1,726,388 parameters at depth 164 for 100 classes.

    Three stages of n bottlenecks (1×1, 3×3, 1×1 with four times the channels), channels `width`, 2 and 4 times it;
    convolutions without biases; where shapes differ the shortcut is a bare 1×1 convolution.

    Shapes:
        input [n, 3, side, side] (any side divisible by 4), output (logits) [n, classes].

    Raises:
        ValueError: the depth is not 9n + 2 with n ≥ 1.
    """

    def __init__(self, depth: int = 164, *, width: int = 16, classes: int = 100) -> None:
        if depth < 11 or (depth - 2) % 9:
            raise ValueError(f"depth {depth} is not 9n + 2 with n of at least 1 (11, 20, …, 164).")
        blocks = (depth - 2) // 9
        convolution = nn.Conv2d(3, width, 3, padding=1, bias=False)
        stages = residual_stages(Bottleneck, width, width, blocks=blocks, expansion=EXPANSION)
        super().__init__(convolution, stages, 4 * EXPANSION * width, classes)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw convolutions from N(0, 2/fan_out)."""
        initialise_convolutions(self, generator, "fan_out_normal")


class Bottleneck(nn.Module):
    """x + conv₁(a(conv₃(a(conv₁(a x))))) with a = relu ∘ norm."""

    def __init__(self, into: int, planes: int, *, stride: int) -> None:
        super().__init__()
        out = planes * EXPANSION
        self.normalisation1 = nn.BatchNorm2d(into)
        self.convolution1 = nn.Conv2d(into, planes, 1, bias=False)
        self.normalisation2 = nn.BatchNorm2d(planes)
        self.convolution2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.normalisation3 = nn.BatchNorm2d(planes)
        self.convolution3 = nn.Conv2d(planes, out, 1, bias=False)
        same = into == out and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(into, out, 1, bias=False)
        self.stride = stride

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features [n, 4 planes, height/stride, width/stride] of features [n, into, height, width]."""
        features = self.convolution1(functional.relu(self.normalisation1(inputs)))
        features = self.convolution2(functional.relu(self.normalisation2(features)))
        features = self.convolution3(functional.relu(self.normalisation3(features)))
        result: torch.Tensor = features + self.shortcut(thinned(inputs, self.stride))
        return result
