"""Collections of graphs as batches of dense matrices, generated ones among them, and their folds."""

from dataclasses import dataclass

import torch

from common.datasets.graphs import GraphCollection, load_graphs
from common.models.graph_networks import normalised_adjacency, walk_adjacency

from .random_graphs import barabasi_albert, erdos_renyi
from .spectra import diffusion_norms


@dataclass(frozen=True)
class Batch:
    """Graphs of similar size, padded to n places.

    Attributes:
        index: places in the collection, int64 [graphs].
        labels: int64 [graphs, n], what the one-hot features say.
        diffusion: P, float32 [graphs, n, n].
        mask: which places hold a node, bool [graphs, n].
    """

    index: torch.Tensor
    labels: torch.Tensor
    diffusion: torch.Tensor
    mask: torch.Tensor

    def take(self, rows: torch.Tensor) -> "Batch":
        """The graphs in `rows` (bool or int64) of this batch."""
        return Batch(self.index[rows], self.labels[rows], self.diffusion[rows], self.mask[rows])


@dataclass(frozen=True)
class GraphData:
    """A collection for one model.

    Attributes:
        batches: all its graphs.
        targets: class of each graph, int64 [graphs].
        classes, labels: numbers of classes and of node labels.
        degree: the largest degree of a node.
        diffusion_norm: largest ‖P‖₂ of a graph.
        feature_matrix_norm: largest ‖X‖₂ of a graph.
    """

    batches: list[Batch]
    targets: torch.Tensor
    classes: int
    labels: int
    degree: float
    diffusion_norm: float
    feature_matrix_norm: float


def prepare(graphs: GraphCollection, model: str, batch: int, device: torch.device) -> GraphData:
    """Dense batches with the P of `model`; where nodes have no labels their degree is their label."""
    by_degree = int(graphs.labels.max()) == 0
    batches, degrees, norms, labels = [], [], [], []
    for some in graphs.sizes.argsort(stable=True).split(batch):
        part = graphs.take(some)
        adjacency, mask = part.adjacency(), part.mask()
        own = adjacency.sum(-1).long() if by_degree else part.padded_labels()
        degrees.append(adjacency.sum(-1).amax())
        diffusion = {"gcn": normalised_adjacency(adjacency, mask), "sage": walk_adjacency(adjacency)}.get(
            model, adjacency
        )
        norm = "walk_norm" if model == "sage" else "adjacency_norm"
        norms.append(1.0 if model == "gcn" else float(diffusion_norms(adjacency)[norm].max()))
        labels.append(int(torch.where(mask, own, 0).max()))
        moved = (tensor.to(device) for tensor in (some, own, diffusion, mask))
        batches.append(Batch(*moved))
    counts = max(_largest_label_count(part) for part in batches)
    return GraphData(
        batches=batches,
        targets=graphs.targets.to(device),
        classes=graphs.classes,
        labels=max(labels) + 1,
        degree=float(torch.stack(degrees).max()),
        diffusion_norm=max(norms),
        feature_matrix_norm=counts
        ** 0.5,  # one-hot columns are orthogonal: ‖X‖₂² is the largest number of equal labels in a graph
    )


def _largest_label_count(batch: Batch) -> int:
    counts = torch.zeros(len(batch.labels), int(batch.labels.max()) + 1, device=batch.labels.device)
    return int(counts.scatter_add_(1, batch.labels, batch.mask.to(counts)).max())


def subset(name: str, count: int) -> GraphCollection:
    """A registered collection; at most `count` of its graphs (0: all), evenly spaced in the order of the file.

    The file is sorted by class and size, so that classes and sizes keep their shares.
    """
    graphs = load_graphs(name)
    if not count or count >= len(graphs):
        return graphs
    return graphs.take(torch.linspace(0, len(graphs) - 1, count).round().long())


def generated(count: int, label_noise: float, seed: int) -> GraphCollection:
    """Graphs of two classes with 12 to 30 nodes: even (Erdős–Rényi) or with hubs (Barabási–Albert), equally dense.

    A share `label_noise` of the classes is swapped. Nodes have no labels.
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(12, 31, (count,), generator=generator)
    targets = torch.arange(count) % 2
    edges, counts = [], []
    for size, target in zip(sizes.tolist(), targets.tolist(), strict=True):
        if target:
            matrix = barabasi_albert(1, size, 2, generator)[0]
        else:
            matrix = erdos_renyi(1, size, 2 * (2 * size - 3) / size, generator)[0]
        pairs = matrix.triu().nonzero()
        edges.append(pairs)
        counts.append(len(pairs))
    swapped = torch.rand(count, generator=generator) < label_noise
    return GraphCollection(
        name="generated",
        sizes=sizes,
        targets=torch.where(swapped, 1 - targets, targets),
        labels=torch.zeros(int(sizes.sum()), dtype=torch.int64),
        edge_counts=torch.tensor(counts),
        edges=torch.cat(edges),
    )


def stratified_folds(targets: torch.Tensor, folds: int, generator: torch.Generator) -> torch.Tensor:
    """Fold of each graph, int64 [graphs]: every class spread evenly over the folds, at random."""
    order = torch.randperm(len(targets), generator=generator)
    order = order[targets.cpu()[order].argsort(stable=True)]
    fold = torch.empty_like(order)
    fold[order] = torch.arange(len(order)) % folds
    return fold
