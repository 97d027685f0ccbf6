"""What residual networks share: three stages of blocks, pre-activation, and initial weights from a given generator."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

Rule = Literal["xavier_uniform", "fan_in_normal", "fan_out_normal"]


def residual_stages(
    block: Callable[..., nn.Module], into: int, width: int, *, blocks: int, expansion: int = 1
) -> nn.Sequential:
    """Three stages of `blocks` blocks, made as `block(channels in, width, stride=…)`.

    The width doubles from stage to stage, where the first block has stride 2; a block puts out `expansion` times its
    width.
    """
    made: list[nn.Module] = []
    for stage in range(3):
        for place in range(blocks):
            made.append(block(into, width * 2**stage, stride=2 if stage > 0 and place == 0 else 1))
            into = width * 2**stage * expansion
    return nn.Sequential(*made)


def thinned(images: torch.Tensor, stride: int) -> torch.Tensor:
    """Every `stride`-th pixel of [n, channels, height, width], for a 1×1 convolution that would skip the others.

    With a stride of its own, fewer than eight channels and channels last, oneDNN 3.12 writes past its buffer in the
    gradient of the weights on processors without AVX-512: the process dies or goes on with wrong numbers
    (uxlfoundation/oneDNN, issue 6035). The numbers are the same to the last bit.
    """
    return images if stride == 1 else images[:, :, ::stride, ::stride]


class PreactivationNetwork(nn.Module):
    """Convolution, residual blocks that normalise before they convolve, normalisation, mean over pixels, linear."""

    def __init__(self, convolution: nn.Conv2d, blocks: nn.Sequential, channels: int, classes: int) -> None:
        super().__init__()
        self.convolution, self.blocks = convolution, blocks
        self.normalisation = nn.BatchNorm2d(channels)
        self.output = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of images [n, 3, height, width]."""
        features = functional.relu(self.normalisation(self.blocks(self.convolution(images))))
        logits: torch.Tensor = self.output(features.mean((2, 3)))
        return logits


@torch.no_grad()
def initialise_convolutions(model: nn.Module, generator: torch.Generator, rule: Rule) -> None:
    """Draw all convolutions by `rule`; linear layers as PyTorch does, norms to 1 and 0, biases of convolutions to 0.

    Layers are visited in the order of `modules()`, weight before bias; running statistics start anew.

    Args:
        rule: "xavier_uniform", U(−b, b) with b = √2 √(6/(fan_in + fan_out)); "fan_in_normal" and
            "fan_out_normal", N(0, 2/fan_in) (He et al. 2015) and N(0, 2/fan_out).

    Raises:
        ValueError: a layer of another kind holds parameters.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            receptive = module.weight[0, 0].numel()
            into, out = module.in_channels * receptive, module.out_channels * receptive
            if rule == "xavier_uniform":
                bound = math.sqrt(2) * math.sqrt(6 / (into + out))
                drawn = torch.empty(module.weight.shape).uniform_(-bound, bound, generator=generator)
            else:
                fan = into if rule == "fan_in_normal" else out
                drawn = math.sqrt(2 / fan) * torch.randn(module.weight.shape, generator=generator)
            module.weight.copy_(drawn)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            for parameter in module.parameters():
                parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))
        elif list(module.parameters(recurse=False)):
            raise ValueError(f"{name} ({type(module).__name__}) has parameters but no rule for their initial values.")
