"""The small VGG of Wu, Ma and E (2018) for two classes of CIFAR-10."""

import torch
from torch import nn

from common.models.residual import initialise_convolutions


class SmallVGG(nn.Module):
    """Five 3×3 convolutions (16, 16, 32, 64, 64 channels), each with ReLU and max-pooling, then 64-128-2.

    71,410 parameters with two outputs, no batch normalisation. Five poolings bring 32×32 pixels down to one.

    Shapes:
        input [n, 3, 32, 32], output [n, outputs].
    """

    CHANNELS = (16, 16, 32, 64, 64)

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        features: list[nn.Module] = []
        before = 3
        for channels in self.CHANNELS:
            features += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            before = channels
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, outputs))

    def initialise(self, generator: torch.Generator) -> None:
        """As the authors' code: convolutions from N(0, 2/fan_out), their biases 0, linear layers as PyTorch does."""
        initialise_convolutions(self, generator, "fan_out_normal")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs [n, outputs] of images [n, 3, 32, 32]."""
        outputs: torch.Tensor = self.classifier(self.features(images))
        return outputs
