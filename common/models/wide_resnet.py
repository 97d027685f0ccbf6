"""Wide residual networks for small colour images (Zagoruyko and Komodakis 2016)."""

import torch
from torch import nn
from torch.nn import functional

from common.models.residual import PreactivationNetwork, initialise_convolutions, residual_stages, thinned


class WideResNet(PreactivationNetwork):
    """WRN-depth-widening with pre-activation blocks, convolutions with biases, no dropout.

    WRN-28-10 has 36,546,980 parameters for 100 classes, WRN-58-3 7,661,722 for 10, 7,679,092 for 100 and 7,698,392
    for 200: the counts of two documents. Both belong to public implementations whose convolutions have biases, whose
    shortcuts take what is not yet normalised and whose second convolution has the stride; the original has no biases,
    shortcuts behind norm and ReLU, and the stride in the first. The last norm's momentum is 0.1, theirs 0.9.

    Shapes:
        input [n, 3, side, side] (any side divisible by 4), output (logits) [n, classes].

    Args:
        depth: 6n + 4.
        widening: factor k on the channels 16, 32, 64 of the three stages.
        base: channels of the first convolution, 16 in the original.

    Raises:
        ValueError: the depth is not 6n + 4 with n ≥ 1.
    """

    def __init__(self, depth: int = 28, widening: int = 10, *, classes: int = 100, base: int = 16) -> None:
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth {depth} is not 6n + 4 with n of at least 1 (10, 16, 22, 28, …).")
        blocks = (depth - 4) // 6
        convolution = nn.Conv2d(3, base, 3, padding=1)
        stages = residual_stages(WideBlock, base, base * widening, blocks=blocks)
        super().__init__(convolution, stages, 4 * base * widening, classes)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw convolutions by Xavier's uniform rule with gain √2, as the implementations do."""
        initialise_convolutions(self, generator, "xavier_uniform")


class WideBlock(nn.Module):
    """x + conv(relu(norm(conv(relu(norm x))))), the shortcut a 1×1 convolution where shapes differ."""

    def __init__(self, into: int, out: int, *, stride: int) -> None:
        super().__init__()
        self.normalisation1 = nn.BatchNorm2d(into)
        self.convolution1 = nn.Conv2d(into, out, 3, padding=1)
        self.normalisation2 = nn.BatchNorm2d(out)
        self.convolution2 = nn.Conv2d(out, out, 3, stride=stride, padding=1)
        same = into == out and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(into, out, 1)
        self.stride = stride

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Features [n, out, height/stride, width/stride] of features [n, into, height, width]."""
        features = self.convolution1(functional.relu(self.normalisation1(inputs)))
        features = self.convolution2(functional.relu(self.normalisation2(features)))
        result: torch.Tensor = features + self.shortcut(thinned(inputs, self.stride))
        return result
