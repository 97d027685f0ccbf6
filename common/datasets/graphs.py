"""Graphs in memory: a collection of small graphs with classes, or one network."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from common.errors import UserError

if TYPE_CHECKING:
    from common.datasets import Registry


@dataclass(frozen=True, eq=False)
class GraphCollection:
    """Undirected graphs without loops, each with a class; of edges that go to and fro one stands here.

    Attributes:
        name: of the data set.
        sizes: nodes of each graph, int64 [graphs].
        targets: class of each graph, int64 [graphs].
        labels: of each node, int64 [nodes], graph after graph; all 0 where nodes have none.
        edge_counts: int64 [graphs].
        edges: int64 [edges, 2], nodes counted within their graph, graph after graph.
    """

    name: str
    sizes: Tensor
    targets: Tensor
    labels: Tensor
    edge_counts: Tensor
    edges: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.targets.max()) + 1

    def take(self, indices: Tensor) -> "GraphCollection":
        """The graphs at `indices` (int64 [k]), in that order."""
        nodes, edges = _positions(self.sizes, indices), _positions(self.edge_counts, indices)
        return GraphCollection(
            name=self.name,
            sizes=self.sizes[indices],
            targets=self.targets[indices],
            labels=self.labels[nodes],
            edge_counts=self.edge_counts[indices],
            edges=self.edges[edges],
        )

    def adjacency(self, width: int | None = None) -> Tensor:
        """Dense adjacency matrices, float32 [graphs, width, width]; `width` is the largest size if not given."""
        width = int(self.sizes.max()) if width is None else width
        matrices = torch.zeros(len(self), width, width)
        graph = torch.repeat_interleave(torch.arange(len(self)), self.edge_counts)
        one, other = self.edges.unbind(1)
        matrices[graph, one, other] = 1
        matrices[graph, other, one] = 1
        return matrices

    def padded_labels(self, width: int | None = None) -> Tensor:
        """Labels, int64 [graphs, width], 0 where a graph has no node."""
        width = int(self.sizes.max()) if width is None else width
        rows = torch.zeros(len(self), width, dtype=torch.int64)
        rows[self.mask(width)] = self.labels
        return rows

    def mask(self, width: int | None = None) -> Tensor:
        """Which places hold a node, bool [graphs, width]."""
        width = int(self.sizes.max()) if width is None else width
        return torch.arange(width) < self.sizes[:, None]


def _positions(counts: Tensor, indices: Tensor) -> Tensor:
    """Places of the rows of the blocks `indices` where blocks of `counts` rows stand one after another."""
    starts = counts.cumsum(0) - counts
    chosen = counts[indices]
    before = chosen.cumsum(0) - chosen
    shift = torch.repeat_interleave(starts[indices] - before, chosen)
    return torch.arange(int(chosen.sum())) + shift


def load_graphs(name: str, registry: "Registry | None" = None) -> GraphCollection:
    """The collection `name` of the registry, fetched if need be.

    Raises:
        DataUnavailable: no source delivered it.
        UserError: no such data set, or no collection of graphs.
    """
    return read_collection(name, _only_file(name, ".graphs", registry).read_bytes())


def read_collection(name: str, content: bytes) -> GraphCollection:
    """A collection from the bytes that `canonical_graphs.packed` writes."""
    count = int(np.frombuffer(content, "<i4", 1)[0])
    table = torch.from_numpy(np.frombuffer(content, "<i4", 3 * count, 4).astype(np.int64)).view(count, 3)
    sizes, edge_counts, targets = table.unbind(1)
    nodes, start = int(sizes.sum()), 4 + 12 * count
    labels = np.frombuffer(content, "<u2", nodes, start).astype(np.int64)
    edges = np.frombuffer(content, "<u2", 2 * int(edge_counts.sum()), start + 2 * nodes).astype(np.int64)
    return GraphCollection(
        name=name,
        sizes=sizes.clone(),
        targets=targets.clone(),
        labels=torch.from_numpy(labels),
        edge_counts=edge_counts.clone(),
        edges=torch.from_numpy(edges).view(-1, 2),
    )


def load_network(name: str, registry: "Registry | None" = None) -> Tensor:
    """Edges of the network `name`, int64 [edges, 2]; nodes are numbered 0, 1, … and none is isolated.

    Raises:
        DataUnavailable: no source delivered it.
        UserError: no such data set, or no network.
    """
    pairs = np.frombuffer(_only_file(name, ".network", registry).read_bytes(), "<i4").astype(np.int64)
    _, numbered = np.unique(pairs, return_inverse=True)
    return torch.from_numpy(numbered.astype(np.int64)).view(-1, 2)


def _only_file(name: str, ending: str, registry: "Registry | None") -> Path:
    # Named at run time: how bytes are fetched is no part of what a run computes from them, and the registry pins them.
    paths: dict[str, Path] = importlib.import_module("common.datasets").files(name, registry)
    found = [path for file, path in paths.items() if file.endswith(ending)]
    if len(found) != 1:
        raise UserError(f"The data set {name!r} has no file {ending}; it is not what is asked for here.")
    return found[0]
