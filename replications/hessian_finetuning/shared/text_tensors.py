"""Texts kept as tensors: which data and which pretrained weights features were computed with."""

import torch
from torch import Tensor


def as_tensor(text: str) -> Tensor:
    """A text as bytes, uint8, to be kept beside features.

    Example:
        >>> as_text(as_tensor("mnist"))
        'mnist'
    """
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def as_text(kept: Tensor) -> str:
    """The text of `as_tensor`."""
    return bytes(kept.tolist()).decode()
