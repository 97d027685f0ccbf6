"""ResNet-34 for ImageNet (He et al. 2016) as a chain of stages, to be cut into a frozen and a trained part."""

from collections.abc import Mapping

from torch import Tensor, nn

from common.models.mobilenet import MeanOverPositions

_BLOCKS = (3, 4, 6, 3)
_WIDTHS = (64, 128, 256, 512)


def resnet34() -> nn.Sequential:
    """Stem, 16 blocks, mean over positions: 18 stages without the classifier.

    Shapes:
        input [n, 3, height, width] (standardised by ImageNet's statistics), output [n, 512].
    """
    stages: list[nn.Module] = [Stem()]
    channels = _WIDTHS[0]
    for group, (repetitions, width) in enumerate(zip(_BLOCKS, _WIDTHS, strict=True)):
        for place in range(repetitions):
            stages.append(BasicBlock(channels, width, stride=2 if group and place == 0 else 1))
            channels = width
    return nn.Sequential(*stages, MeanOverPositions())


def load_resnet34(network: nn.Sequential, weights: Mapping[str, Tensor]) -> nn.Sequential:
    """Fill `resnet34()` with weights under torchvision's names.

    Raises:
        ValueError: a weight is missing or of another shape.
    """
    blocks = [f"layer{group + 1}.{place}" for group, many in enumerate(_BLOCKS) for place in range(many)]
    try:
        network.load_state_dict({name: weights[_official(name, blocks)] for name in network.state_dict()})
    except (KeyError, RuntimeError) as error:
        raise ValueError(f"The weights are not those of ResNet-34: {error}") from error
    return network


def resnet34_weights(network: nn.Sequential) -> dict[str, Tensor]:
    """The weights of `resnet34()` under torchvision's names: what `load_resnet34` reads."""
    blocks = [f"layer{group + 1}.{place}" for group, many in enumerate(_BLOCKS) for place in range(many)]
    return {_official(name, blocks): tensor for name, tensor in network.state_dict().items()}


def _official(name: str, blocks: list[str]) -> str:
    place, _, rest = name.partition(".")
    return rest if place == "0" else f"{blocks[int(place) - 1]}.{rest}"


class Stem(nn.Module):
    """7×7 convolution, normalisation, ReLU, max-pooling; a quarter of the side remains."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, _WIDTHS[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(_WIDTHS[0])
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        pooled: Tensor = self.pool(self.relu(self.bn1(self.conv1(images))))
        return pooled


class BasicBlock(nn.Module):
    """Two 3×3 convolutions, each normalised, added to the input (by 1×1 where shapes differ), ReLU."""

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or channels != width:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, images: Tensor) -> Tensor:
        inner = self.relu(self.bn1(self.conv1(images)))
        after: Tensor = self.relu(self.bn2(self.conv2(inner)) + self.downsample(images))
        return after
