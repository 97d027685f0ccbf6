"""The all-convolutional network All-CNN-C (Springenberg et al. 2015)."""

import torch
from torch import nn

from common.models.initialisation import initialise_uniform


class AllConvolutional(nn.Module):
    """Nine convolutions with ReLU between them and a mean over places: 1,387,108 parameters for 100 classes.

    Two of the 3×3 convolutions have step 2, the seventh no padding, the last two are 1×1. Dropout is left out, so
    that the loss is a mean over examples, and the ReLU that the original has behind the last convolution, too, which
    lets no logit be negative.

    Shapes:
        input [n, 3, side, side] (side at least 12), output (logits) [n, classes].

    Args:
        width: channels of the first three convolutions, 96 in the original; the others have twice as many.
    """

    def __init__(self, *, width: int = 96, classes: int = 100) -> None:
        super().__init__()
        wide = 2 * width
        layers = [
            nn.Conv2d(3, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, stride=2, padding=1),
            nn.Conv2d(width, wide, 3, padding=1),
            nn.Conv2d(wide, wide, 3, padding=1),
            nn.Conv2d(wide, wide, 3, stride=2, padding=1),
            nn.Conv2d(wide, wide, 3),
            nn.Conv2d(wide, wide, 1),
        ]
        self.features = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
        self.output = nn.Conv2d(wide, classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits [n, classes] of images [n, 3, height, width]."""
        logits: torch.Tensor = self.output(self.features(images)).mean((2, 3))
        return logits

    def initialise(self, generator: torch.Generator) -> None:
        """Draw weights and biases as PyTorch does."""
        initialise_uniform(self, generator)
