"""Graph networks for small graphs: GCN, and message-passing networks with shared weights, for many members at once.

Graphs are batched densely: n places for nodes, fewer where a graph is smaller. On the collections that are used here
this is 2.8 to 4.3 times as fast as one large sparse graph (GCN on a CPU, `python -m benchmarks.graph_batching`); the
modules of torch-geometric that compute the same are made by `geometric_network`.

Both follow Zhang 2024, eqs. (10) and (11), with l layers of which the last one pools:

    H⁽ᵗ⁾ = φ(X U + ρ(P ψ(H⁽ᵗ⁻¹⁾)) W),   logits = 1ᵀ H⁽ˡ⁻¹⁾ W⁽ˡ⁾ / n

Features X are one-hot: nodes carry a label, and X W is a choice of rows.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from common.errors import UserError

Weights = Sequence[Tensor]


def normalised_adjacency(adjacency: Tensor, mask: Tensor) -> Tensor:
    """D^-½ (A + I) D^-½ with D of A + I, zero outside of `mask`; the GCN's P, whose spectral norm is 1.

    Shapes:
        adjacency [graphs, n, n], mask bool [graphs, n], result [graphs, n, n].
    """
    looped = adjacency + torch.diag_embed(mask.to(adjacency))
    scale = looped.sum(-1).clamp(min=1).rsqrt() * mask
    return scale[..., None] * looped * scale[..., None, :]


def walk_adjacency(adjacency: Tensor) -> Tensor:
    """D⁻¹A, a mean over neighbours, as GraphSAGE's P; rows of isolated nodes are zero. Shapes [graphs, n, n]."""
    return adjacency / adjacency.sum(-1, keepdim=True).clamp(min=1)


def member_logits(
    model: str, weights: Weights, labels: Tensor, diffusion: Tensor, mask: Tensor, *, depth: int
) -> Tensor:
    """Logits [members, graphs, classes] of a "gcn", "mpnn", "sage" (an MPNN whose P is D⁻¹A) or "gin".

    Shapes are those of `gcn_logits`.
    """
    if model == "gcn":
        return gcn_logits(weights, labels, diffusion, mask)
    read = isomorphism_logits if model == "gin" else message_passing_logits
    return read(weights, labels, diffusion, mask, depth)


def gcn_logits(weights: Weights, labels: Tensor, diffusion: Tensor, mask: Tensor) -> Tensor:
    """H⁽ᵗ⁾ = ReLU(P H⁽ᵗ⁻¹⁾ W⁽ᵗ⁾) from H⁽⁰⁾ = X, and the mean over nodes times W⁽ˡ⁾ (U = 0 in eq. 10).

    Shapes:
        weights l tensors [members, in, out], labels int64 [graphs, n], diffusion [graphs, n, n], mask [graphs, n];
        result [members, graphs, classes].
    """
    hidden = torch.relu(_diffused(diffusion, _chosen(weights[0], labels)))
    for weight in weights[1:-1]:
        hidden = torch.relu(_diffused(diffusion, _times(hidden, weight)))
    return _pooled(hidden, weights[-1], mask)


def message_passing_logits(weights: Weights, labels: Tensor, diffusion: Tensor, mask: Tensor, depth: int) -> Tensor:
    """H⁽ᵗ⁾ = tanh(X U + tanh(P tanh(H⁽ᵗ⁻¹⁾)) W) from H⁽⁰⁾ = 0, l − 1 times with the same U and W, then pooled.

    With shared weights H⁽⁰⁾ = X would have another width than H⁽¹⁾; it starts from 0 as in Liao et al. 2021.

    Shapes:
        weights U [members, labels, h], W [members, h, h], readout [members, h, classes]; others as in `gcn_logits`.
    """
    first, second, last = weights
    return _pooled(_messages(first, second, labels, diffusion, depth)[-1], last, mask)


def isomorphism_logits(weights: Weights, labels: Tensor, diffusion: Tensor, mask: Tensor, depth: int) -> Tensor:
    """The layers of `message_passing_logits` with a readout each, of which the mean is taken: GIN reads all layers.

    Shapes:
        weights U [members, labels, h], W [members, h, h] and l − 1 readouts [members, h, classes].
    """
    first, second, *readouts = weights
    layers = _messages(first, second, labels, diffusion, depth)
    return torch.stack([_pooled(*pair, mask) for pair in zip(layers, readouts, strict=True)]).mean(0)


def _messages(first: Tensor, second: Tensor, labels: Tensor, diffusion: Tensor, depth: int) -> list[Tensor]:
    """H⁽¹⁾ … H⁽ˡ⁻¹⁾ with the same U and W in every layer."""
    own = _chosen(first, labels)
    layers = [torch.tanh(own)]
    for _ in range(depth - 2):
        received = torch.tanh(_diffused(diffusion, torch.tanh(layers[-1])))
        layers.append(torch.tanh(own + _times(received, second)))
    return layers


# Hidden values are [graphs, n, members, h]: P then multiplies all members at once, without a copy.


def _chosen(weight: Tensor, labels: Tensor) -> Tensor:
    """X W of every member: its row for each node's label."""
    members, _, width = weight.shape
    rows = functional.embedding(labels, weight.transpose(0, 1).flatten(1))  # its backward is faster than indexing's
    return rows.view(*labels.shape, members, width)


def _diffused(diffusion: Tensor, hidden: Tensor) -> Tensor:
    """P H of every graph and member."""
    return torch.bmm(diffusion, hidden.flatten(2)).view(hidden.shape)


def _times(hidden: Tensor, weight: Tensor) -> Tensor:
    """H W of every member."""
    graphs, places, members, width = hidden.shape
    if members == 1:
        return (hidden.view(-1, width) @ weight[0]).view(graphs, places, 1, -1)
    product = torch.bmm(hidden.view(-1, members, width).transpose(0, 1), weight)
    return product.transpose(0, 1).reshape(graphs, places, members, -1)


def _pooled(hidden: Tensor, last: Tensor, mask: Tensor) -> Tensor:
    """Mean over the nodes of each graph, times the last weights: [members, graphs, classes]."""
    share = mask.to(hidden) / mask.sum(-1, keepdim=True)
    means = torch.bmm(share[:, None], hidden.flatten(2)).view(len(hidden), *hidden.shape[2:])
    return torch.bmm(means.transpose(0, 1), last)


def weight_shapes(model: str, labels: int, width: int, classes: int, depth: int) -> list[tuple[int, int]]:
    """(in, out) of each weight of a "gcn", "mpnn", "sage" or "gin" with `depth` layers.

    Raises:
        ValueError: another model, or fewer than two layers.
    """
    if depth < 2:
        raise ValueError(f"depth={depth}: a graph network here has at least two layers.")
    if model == "gcn":
        return [(labels, width), *[(width, width)] * (depth - 2), (width, classes)]
    if model in ("mpnn", "sage"):
        return [(labels, width), (width, width), (width, classes)]
    if model == "gin":
        return [(labels, width), (width, width), *[(width, classes)] * (depth - 1)]
    raise ValueError(f"model {model!r} is none of gcn, mpnn, sage and gin.")


def initial_weights(shapes: Sequence[tuple[int, int]], generator: torch.Generator) -> list[Tensor]:
    """Glorot's uniform draw for each weight [in, out]: ± sqrt(6/(in + out)), the default of GCNConv."""
    return [
        torch.empty(shape).uniform_(-math.sqrt(6 / sum(shape)), math.sqrt(6 / sum(shape)), generator=generator)
        for shape in shapes
    ]


class GraphNetwork(nn.Module):
    """One member as a module: `model` as in `member_logits`, `weights` [in, out] each.

    Shapes:
        forward(labels [graphs, n], diffusion [graphs, n, n], mask [graphs, n]) gives logits [graphs, classes].
    """

    def __init__(self, model: str, weights: Weights, depth: int) -> None:
        super().__init__()
        self.model, self.depth = model, depth
        self.weights = nn.ParameterList([weight.detach().clone() for weight in weights])

    def forward(self, labels: Tensor, diffusion: Tensor, mask: Tensor) -> Tensor:
        weights = [weight[None] for weight in self.weights]
        return member_logits(self.model, weights, labels, diffusion, mask, depth=self.depth)[0]


def geometric_network(model: str, weights: Weights, depth: int) -> nn.Module:
    """The same network from torch-geometric's parts (GCNConv; MessagePassing with sums), on one large sparse graph.

    Its forward takes one-hot features [nodes, labels], edge_index [2, edges] (each edge to and fro) and the graph of
    each node [nodes].

    Raises:
        UserError: torch-geometric is not installed.
    """
    try:
        from torch_geometric.nn import GCNConv, MessagePassing, global_mean_pool
    except ImportError as error:
        raise UserError("Sparse graph networks need torch-geometric: pip install torch-geometric.") from error

    class Convolutional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [GCNConv(*weight.shape, bias=False) for weight in weights[:-1]]
            for layer, weight in zip(layers, weights, strict=False):
                layer.lin.weight.data = weight.detach().T.clone()
            self.layers = nn.ModuleList(layers)
            self.readout = nn.Parameter(weights[-1].detach().clone())

        def forward(self, features: Tensor, edge_index: Tensor, graph: Tensor) -> Tensor:
            hidden = features
            for layer in self.layers:
                hidden = torch.relu(layer(hidden, edge_index))
            pooled: Tensor = global_mean_pool(hidden, graph)
            return pooled @ self.readout

    class Messages(MessagePassing):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(aggr="add")
            self.first, self.second, self.last = (nn.Parameter(weight.detach().clone()) for weight in weights)

        def forward(self, features: Tensor, edge_index: Tensor, graph: Tensor) -> Tensor:
            own = features @ self.first
            hidden = torch.tanh(own)
            for _ in range(depth - 2):
                received = torch.tanh(self.propagate(edge_index, x=torch.tanh(hidden)))
                hidden = torch.tanh(own + received @ self.second)
            pooled: Tensor = global_mean_pool(hidden, graph)
            return pooled @ self.last

    networks: dict[str, Any] = {"gcn": Convolutional, "mpnn": Messages}
    return networks[model]()  # type: ignore[no-any-return]
