"""MobileNetV2 (Sandler et al. 2018) as a chain of stages, to be cut into a frozen and a trained part."""

from torch import Tensor, nn

# expansion t, channels c, repetitions n, first stride s: Table 2 of the paper
_GROUPS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_FIRST, _LAST = 32, 1280


def mobilenet_v2() -> nn.Sequential:
    """First convolution, 17 blocks, last convolution, mean over positions: 20 stages without the classifier.

    Shapes:
        input [n, 3, height, width] (standardised by ImageNet's statistics), output [n, 1280].
    """
    stages: list[nn.Module] = [_convolution(3, _FIRST, kernel=3, stride=2)]
    channels = _FIRST
    for expansion, width, repetitions, stride in _GROUPS:
        for place in range(repetitions):
            stages.append(InvertedResidual(channels, width, stride if place == 0 else 1, expansion))
            channels = width
    return nn.Sequential(*stages, _convolution(channels, _LAST), MeanOverPositions())


def _convolution(channels: int, width: int, *, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """1×1 up, 3×3 within each channel, 1×1 down without a nonlinearity; added to the input where shapes agree.

    `conv` is one flat chain, as in the weight files.
    """

    def __init__(self, channels: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        up = list(_convolution(channels, inner)) if expansion > 1 else []
        within = _convolution(inner, inner, kernel=3, stride=stride, groups=inner)
        self.conv = nn.Sequential(*up, *within, nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width))
        self.residual = stride == 1 and channels == width

    def forward(self, images: Tensor) -> Tensor:
        changed: Tensor = self.conv(images)
        return images + changed if self.residual else changed


class MeanOverPositions(nn.Module):
    """[n, channels, height, width] to [n, channels]."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3))
