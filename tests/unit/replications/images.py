"""Random pictures that take no download."""

import torch

from common.datasets import Dataset, Split


def random_images(channels: int, side: int, *, train: int = 60, test: int = 30, classes: int = 10) -> Dataset:
    """Training and test images of `side` × `side` pixels, with random classes."""
    source = torch.Generator().manual_seed(0)

    def split(name: str, count: int) -> Split:
        images = torch.randint(0, 256, (count, channels, side, side), generator=source, dtype=torch.uint8)
        return Split(f"images/{name}", images, torch.randint(0, classes, (count,), generator=source))

    return Dataset("images", "random images", classes, "none", split("train", train), split("test", test))
