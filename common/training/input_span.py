"""Training in coordinates of the span of the inputs, where examples are fewer than features.

Whatever the batches, steps move the weights of the first layer within the span of the training inputs alone. In an
orthonormal basis of it the losses, the steps and the nonzero eigenvalues of the Hessians are those of the inputs
themselves, and the first layer has as many inputs as there are examples. What lies beside the span stays as it was
drawn, and matters on other inputs only.
"""

from typing import NamedTuple

import torch


class Span(NamedTuple):
    """An orthonormal basis [D, r] of the span of inputs [n, D], and their coordinates [n, r] in it, float64."""

    basis: torch.Tensor
    coordinates: torch.Tensor


def span(inputs: torch.Tensor) -> Span:
    """Of inputs [n, D], n ≤ D: r = n."""
    basis, triangle = torch.linalg.qr(inputs.double().mT)
    return Span(basis, triangle.mT)


def split_first_layer(rows: torch.Tensor, inputs: int, units: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of the first layer [members, units, inputs] and all other coordinates of `rows` [members, P]."""
    count = inputs * units
    return rows[:, :count].unflatten(1, (units, inputs)), rows[:, count:]


def join_first_layer(first: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Undo `split_first_layer`."""
    return torch.cat([first.flatten(1), others], dim=1)
