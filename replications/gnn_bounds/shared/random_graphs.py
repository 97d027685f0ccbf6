"""Generated graphs as dense adjacency matrices, float64 [graphs, n, n], symmetric with zero diagonal."""

import torch

Generator = torch.Generator


def star(nodes: int) -> torch.Tensor:
    """One centre joined to all others."""
    return _from_pairs(nodes, torch.tensor([(0, leaf) for leaf in range(1, nodes)]))


def path(nodes: int) -> torch.Tensor:
    """A chain of nodes."""
    return _from_pairs(nodes, torch.tensor([(node, node + 1) for node in range(nodes - 1)]))


def ring_lattice(nodes: int, degree: int) -> torch.Tensor:
    """Each node joined to `degree`/2 neighbours on either side of a ring: a regular graph."""
    if degree % 2 or degree >= nodes:
        raise ValueError(f"a ring of {nodes} nodes has no even degree {degree}.")
    offsets = range(1, degree // 2 + 1)
    return _from_pairs(nodes, torch.tensor([(node, (node + k) % nodes) for node in range(nodes) for k in offsets]))


def _from_pairs(nodes: int, pairs: torch.Tensor) -> torch.Tensor:
    matrix = torch.zeros(1, nodes, nodes, dtype=torch.float64)
    matrix[0, pairs[:, 0], pairs[:, 1]] = 1
    return torch.maximum(matrix, matrix.mT)


def with_probabilities(probabilities: torch.Tensor, generator: Generator) -> torch.Tensor:
    """Independent edges: edge (i, j) of each graph exists with `probabilities` [graphs, n, n] (symmetric)."""
    upper = torch.rand(probabilities.shape, generator=generator, dtype=torch.float64).triu(1) < probabilities
    matrix = (upper & torch.ones_like(upper).triu(1)).double()
    return matrix + matrix.mT


def erdos_renyi(graphs: int, nodes: int, degree: float, generator: Generator) -> torch.Tensor:
    """Each edge alike and independent, `degree` neighbours expected."""
    return with_probabilities(torch.full((graphs, nodes, nodes), degree / (nodes - 1), dtype=torch.float64), generator)


def block_model(graphs: int, nodes: int, degree: float, share_within: float, generator: Generator) -> torch.Tensor:
    """Two blocks of equal size; of the `degree` expected neighbours `share_within` lie in the own block."""
    half = nodes // 2
    block = torch.arange(nodes) < half
    same = block[:, None] == block[None, :]
    inside, outside = degree * share_within / (half - 1), degree * (1 - share_within) / (nodes - half)
    probabilities = torch.where(same, torch.tensor(inside).double(), torch.tensor(outside).double())
    return with_probabilities(probabilities.clamp(max=1).expand(graphs, nodes, nodes), generator)


def barabasi_albert(graphs: int, nodes: int, links: int, generator: Generator) -> torch.Tensor:
    """Preferential attachment: each new node joins `links` old ones, chosen in proportion to their degrees."""
    matrix = torch.zeros(graphs, nodes, nodes, dtype=torch.float64)
    matrix[:, : links + 1, : links + 1] = 1 - torch.eye(links + 1, dtype=torch.float64)
    rows = torch.arange(graphs)[:, None]
    for node in range(links + 1, nodes):
        chosen = torch.multinomial(matrix[:, :node, :node].sum(-1), links, generator=generator)
        matrix[rows, node, chosen] = 1
        matrix[rows, chosen, node] = 1
    return matrix
