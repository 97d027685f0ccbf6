"""Mini-batches of images that lie on the device as bytes, augmented there, a batch at a time."""

from collections.abc import Iterator

import torch
from torch.nn import functional

PADDING = 4
"""Pixels of black around an image of which a random crop takes its part."""


class ImageBatches:
    """Images as bytes with channels last, given out as normalised floats, cropped and flipped at random.

    Padding by black pixels, a random crop of the original size and a horizontal flip with probability 1/2 are one
    gather of bytes for the whole batch; the result is channels-last without a copy.

    Attributes:
        mean, deviation: of each channel over these images, in grey values; test images are normalised with them too.
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
        mean, deviation = channel_statistics(images)
        self.mean, self.deviation = mean.to(images.device), deviation.to(images.device)

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
        return self._normalised(pixels.permute(0, 3, 1, 2)), self.targets[chosen.to(device)]

    def epoch(self, batch_size: int, source: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Every image once in a random order; the last batch may be smaller."""
        for chosen in torch.randperm(len(self), generator=source).split(batch_size):
            yield self.take(chosen, source)

    def normalise(self, images: torch.Tensor) -> torch.Tensor:
        """Other images, uint8 [n, channels, height, width], as these are: float32 with channels last."""
        return self._normalised(images.to(self.mean.device).contiguous(memory_format=torch.channels_last))

    def _normalised(self, images: torch.Tensor) -> torch.Tensor:
        shape = (1, -1, 1, 1)
        return images.float().sub_(self.mean.view(shape)).div_(self.deviation.view(shape))


def channel_statistics(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation (at least 1) of each channel of bytes [n, channels, …], in grey values, float32.

    From counts of the 256 values, so that they are equal on every machine.

    Example:
        >>> channel_statistics(torch.tensor([[[0, 4]]], dtype=torch.uint8))
        (tensor([2.]), tensor([2.]))
    """
    values = torch.arange(256, dtype=torch.float64)
    found = []
    for channel in range(images.shape[1]):
        shares = torch.bincount(images[:, channel].flatten(), minlength=256).double().cpu()
        shares /= shares.sum()
        mean = float((shares * values).sum())
        found.append((mean, max(float((shares * (values - mean) ** 2).sum()) ** 0.5, 1.0)))
    means, deviations = torch.tensor(found).unbind(1)
    return means, deviations


def averaged_down(images: torch.Tensor, side: int) -> torch.Tensor:
    """Bytes [n, channels, height, width] averaged over squares of pixels down to [n, channels, side, side].

    Raises:
        ValueError: a side that does not divide height and width.

    Example:
        >>> averaged_down(torch.tensor([[[[0, 2], [4, 6]]]], dtype=torch.uint8), 1)
        tensor([[[[3]]]], dtype=torch.uint8)
    """
    if images.shape[-1] == images.shape[-2] == side:
        return images
    if images.shape[-1] % side or images.shape[-2] % side:
        raise ValueError(f"images of {tuple(images.shape[-2:])} pixels cannot be averaged down to a side of {side}.")
    parts = [functional.adaptive_avg_pool2d(part.float(), side).round().to(torch.uint8) for part in images.split(1000)]
    return torch.cat(parts)
