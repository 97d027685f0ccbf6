"""Examples in chunks: inputs that are a tensor, or a tuple or a dict of tensors, with their targets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Inputs = Any
"""A tensor [n, …], or a tuple or a dict of such tensors (called as model(*inputs), model(**inputs))."""


@dataclass(frozen=True)
class Chunk:
    """Examples that are passed through the model together."""

    index: int
    inputs: Inputs
    targets: torch.Tensor

    def __len__(self) -> int:
        return len(self.targets)


def take(inputs: Inputs, part: slice | torch.Tensor) -> Inputs:
    """These examples of a tensor, a tuple or a dict of tensors."""
    return map_inputs(inputs, lambda tensor: tensor[part])


def map_inputs(inputs: Inputs, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """`function` of the tensor, or of each tensor of a tuple, list or dict."""
    if isinstance(inputs, dict):
        return {key: function(value) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(function(value) for value in inputs)
    return function(inputs)


def _length(inputs: Inputs) -> int:
    tensors = list(inputs.values()) if isinstance(inputs, dict) else inputs
    return len(tensors[0]) if isinstance(tensors, tuple | list) else len(tensors)


def chunks_of(data: Any, size: int, device: torch.device) -> list[Chunk]:
    """Inputs and targets, or batches of them, in chunks of at most `size` examples.

    Raises:
        ValueError: inputs without targets or the other way round, or no example.
    """
    pair = isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], torch.Tensor)
    chunks: list[Chunk] = []
    for inputs, targets in [data] if pair else data:
        if _length(inputs) != len(targets):
            raise ValueError(f"{_length(inputs)} inputs and {len(targets)} targets: every example needs both.")
        for start in range(0, len(targets), size):
            part = slice(start, start + size)
            here = map_inputs(take(inputs, part), lambda tensor: tensor.to(device))
            chunks.append(Chunk(len(chunks), here, targets[part].to(device)))
    if not chunks:
        raise ValueError("The data hold no example.")
    return chunks
