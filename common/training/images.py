"""Mini-batches of images that lie on the device as bytes, augmented there, a batch at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from common.datasets.splits import Split

PADDING = 4
"""Pixels of black around an image of which a random crop takes its part."""


@dataclass(frozen=True, eq=False)
class Standardise:
    """Bytes [n, channels, height, width] to float32 of mean 0 and deviation 1 in each channel, same shape.

    Attributes:
        mean, deviation: of each channel in grey values, float32 [channels].
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    @classmethod
    def by_shares(cls, mean: Sequence[float], deviation: Sequence[float]) -> "Standardise":
        """From shares of 255, such as `Split.channel_statistics` gives; deviations at least 1."""
        return cls(255 * torch.tensor(mean), (255 * torch.tensor(deviation)).clamp(min=1.0))

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """The standardised images."""
        mean, deviation = (row.to(images.device).view(1, -1, 1, 1) for row in (self.mean, self.deviation))
        return images.float().sub_(mean).div_(deviation)


class ImageBatches:
    """Images as bytes with channels last, given out as normalised floats, cropped and flipped at random.

    Padding by black pixels, a random crop of the original size and a horizontal flip with probability 1/2 are one
    gather of bytes for the whole batch; the result is channels-last without a copy.

    Attributes:
        standardise: by the statistics of these images, deviations at least 1; test images are standardised by it too.
        targets: int64 [n].

    Args:
        images: uint8 [n, channels, height, width], on the device where batches are wanted.
        augment: whether batches are cropped and flipped.

    Raises:
        ValueError: images that are not bytes in four dimensions, or targets of another length.

    Example:
        >>> images = torch.arange(2 * 3 * 4 * 4).view(2, 3, 4, 4).to(torch.uint8)
        >>> batches = ImageBatches(images, torch.tensor([0, 1]))
        >>> inputs, targets = batches.take(torch.tensor([1, 0]), torch.Generator())
        >>> inputs.shape, targets.tolist(), inputs.is_contiguous(memory_format=torch.channels_last)
        (torch.Size([2, 3, 4, 4]), [1, 0], True)
    """

    def __init__(self, images: torch.Tensor, targets: torch.Tensor, *, augment: bool = True) -> None:
        if images.dtype != torch.uint8 or images.dim() != 4 or len(images) != len(targets):
            raise ValueError("images must be uint8 [n, channels, height, width], and as many as targets.")
        self.augment, self.targets = augment, targets
        self.height, self.width = images.shape[2:]
        margin = PADDING if augment else 0
        self._bytes = functional.pad(images, (margin,) * 4).permute(0, 2, 3, 1).contiguous()
        shares = Split("images", images, targets).channel_statistics()
        mean, deviation = (torch.tensor([255 * share for share in row], device=images.device) for row in shares)
        self.standardise = Standardise(mean, deviation.clamp(min=1.0))

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, chosen: torch.Tensor, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs [b, channels, height, width] float32 and targets [b] of the images with these indices.

        Args:
            chosen: int64 [b], on the CPU.
            source: CPU generator of crops and flips; not used without augmentation.
        """
        device, count = self.targets.device, len(chosen)
        if self.augment:
            drawn = torch.randint(0, 2 * PADDING + 1, (2, count), generator=source)
            flipped = torch.randint(0, 2, (count, 1), generator=source).bool()
            rows = drawn[0][:, None] + torch.arange(self.height)
            columns = torch.arange(self.width).expand(count, -1)
            columns = drawn[1][:, None] + torch.where(flipped, self.width - 1 - columns, columns)
            place = chosen.to(device)[:, None, None]
            pixels = self._bytes[place, rows.to(device)[:, :, None], columns.to(device)[:, None, :]]
        else:
            pixels = self._bytes[chosen.to(device)]
        return self.standardise(pixels.permute(0, 3, 1, 2)), self.targets[chosen.to(device)]

    def epoch(self, batch_size: int, source: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every image once in a random order; the last batch may be smaller."""
        for chosen in torch.randperm(len(self), generator=source).split(batch_size):
            yield self.take(chosen, source)

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        """Other images, uint8 [n, channels, height, width], as these are: float32 with channels last."""
        return self.standardise(images.to(self._bytes.device).contiguous(memory_format=torch.channels_last))


def averaged_down(images: torch.Tensor, side: int) -> torch.Tensor:
    """Bytes [n, channels, height, width] averaged over squares of pixels down to [n, channels, side, side].

    Raises:
        ValueError: a side that does not divide height and width.
    """
    if images.shape[-1] == images.shape[-2] == side:
        return images
    if images.shape[-1] % side or images.shape[-2] % side:
        raise ValueError(f"images of {tuple(images.shape[-2:])} pixels cannot be averaged down to a side of {side}.")
    parts = [functional.adaptive_avg_pool2d(part.float(), side).round().to(torch.uint8) for part in images.split(1000)]
    return torch.cat(parts)
