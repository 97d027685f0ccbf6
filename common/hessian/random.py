"""Random signs and generators. Draws are made on the CPU, so that they are equal on every device."""

from collections.abc import Sequence

import torch


def generator(seed: int) -> torch.Generator:
    """A CPU generator with this seed."""
    return torch.Generator().manual_seed(seed)


def signs(shape: Sequence[int], source: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    """Independent ±1 with equal probability, in the type and on the device of `like`."""
    return torch.randint(0, 2, tuple(shape), generator=source).to(like).mul_(2).sub_(1)


def normal(shape: Sequence[int], source: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    """Independent standard normal numbers, in the type and on the device of `like`."""
    return torch.randn(tuple(shape), generator=source, dtype=like.dtype).to(like)
