"""Fully connected ReLU networks."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


class FullyConnected(nn.Module):
    """Linear layers with biases and ReLU between them; inputs are flattened.

    `FullyConnected((784, 500, 500, 500, 10))` is the network of 898,510 parameters that Wu, Ma and E (2018) train on
    Fashion-MNIST.

    Shapes:
        input [n, …] with sizes[0] numbers an example, output [n, sizes[-1]].

    Args:
        sizes: numbers of inputs, of units of each hidden layer, and of outputs.

    Raises:
        ValueError: fewer than two sizes, or one that is not positive.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        if len(sizes) < 2 or min(sizes) < 1:
            raise ValueError(f"sizes {tuple(sizes)}: give inputs, hidden units and outputs, all positive.")
        self.sizes = tuple(sizes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Outputs [n, sizes[-1]] of inputs [n, …]."""
        values = inputs.flatten(1)
        for number, layer in enumerate(self.layers):
            values = layer(values if number == 0 else functional.relu(values))
        return values


def parameter_count(sizes: Sequence[int]) -> int:
    """Weights and biases of `FullyConnected(sizes)`: 898,510 for (784, 500, 500, 500, 10)."""
    return sum((a + 1) * b for a, b in pairwise(sizes))


@torch.no_grad()
def rescale(network: FullyConnected, factor: float) -> None:
    """Multiply weights and biases of the first layer by `factor` > 0 and divide the weights of the second by it.

    ReLU is positively homogeneous, so that the function stays the same.
    """
    first, second = network.layers[0], network.layers[1]
    for parameter in first.parameters():
        parameter.mul_(factor)
    second.get_parameter("weight").div_(factor)
