"""Random signs and generators. Draws are made on the CPU, so that they are equal on every device."""

import math
from collections.abc import Sequence

import torch

SKIPPED = 1 << 20
"""Signs that are left out at once."""


def generator(seed: int) -> torch.Generator:
    """A CPU generator with this seed."""
    return torch.Generator().manual_seed(seed)


def signs(shape: Sequence[int], source: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    """Independent ±1 with equal probability, in the type and on the device of `like`."""
    if isinstance(source, Counter):
        source.count += math.prod(shape)
    return torch.randint(0, 2, tuple(shape), generator=source).to(like).mul_(2).sub_(1)


class Counter(torch.Generator):
    """A generator that counts the signs drawn from it."""

    count = 0


def skip(source: torch.Generator, count: int) -> None:
    """Leave out so many signs, as if they had been drawn.

    Example:
        >>> one, other = generator(0), generator(0)
        >>> skip(one, 3)
        >>> signs((5,), other, torch.ones(()))[3:].tolist() == signs((2,), one, torch.ones(())).tolist()
        True
    """
    for start in range(0, count, SKIPPED):
        torch.randint(0, 2, (min(SKIPPED, count - start),), generator=source)


def normal(shape: Sequence[int], source: torch.Generator, like: torch.Tensor) -> torch.Tensor:
    """Independent standard normal numbers, in the type and on the device of `like`."""
    return torch.randn(tuple(shape), generator=source, dtype=like.dtype).to(like)
