"""The graph network of Fig. 1 on tensors that hold a graph an example, so that it is trained as the others are.

An example is [n, n + labels]: the normalised adjacency D^-½ (A + I) D^-½ and, beside it, the one-hot labels of the
nodes; rows without a label are no nodes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from common.datasets.graphs import load_graphs
from common.models.graph_networks import normalised_adjacency


def packed_graphs(name: str) -> tuple[Tensor, Tensor]:
    """A collection of the registry as examples [graphs, n, n + labels] and classes [graphs]."""
    graphs = load_graphs(name)
    mask = graphs.mask()
    labels = functional.one_hot(graphs.padded_labels(), int(graphs.labels.max()) + 1) * mask[..., None]
    return torch.cat([normalised_adjacency(graphs.adjacency(), mask), labels.float()], dim=-1), graphs.targets


class PackedGraphNetwork(nn.Module):
    """H⁽¹⁾ = φ(P X W⁽¹⁾), H⁽²⁾ = φ(P H⁽¹⁾ W⁽²⁾), logits = mean of H⁽²⁾ over nodes times W⁽³⁾.

    Zhang 2024, eq. (10) with U = 0.

    Shapes:
        input [graphs, n, n + labels], output [graphs, classes].
    """

    def __init__(self, labels: int, width: int, classes: int, activation: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(labels, width, bias=False), nn.Linear(width, width, bias=False)
        self.readout = nn.Linear(width, classes, bias=False)
        self.activation = activation

    def forward(self, graphs: Tensor) -> Tensor:
        nodes = graphs.shape[-2]
        diffusion, labels = graphs[..., :nodes], graphs[..., nodes:]
        hidden = self.activation(diffusion @ self.first(labels))
        hidden = self.activation(diffusion @ self.second(hidden))
        counts = labels.sum((-2, -1)).clamp(min=1)
        pooled = (hidden * labels.sum(-1, keepdim=True)).sum(-2) / counts[..., None]
        logits: Tensor = self.readout(pooled)
        return logits
