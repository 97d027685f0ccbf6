"""Dense batches against one sparse graph: `python -m benchmarks.graph_batching [COLLECTION …] [--threads N]`.

Prints the time of a training step, forward and backward over all graphs of a collection by `gcn_logits` on dense
batches of similar sizes, and by torch-geometric's GCNConv on the disjoint union. One network each, equal weights. CPU
seconds, the median.
"""

import argparse

import torch
from torch.nn import functional

from benchmarks.timing import medians
from common.datasets.graphs import GraphCollection, load_graphs
from common.models.graph_networks import (
    GraphNetwork,
    geometric_network,
    initial_weights,
    normalised_adjacency,
    weight_shapes,
)

COLLECTIONS = ("mutag", "imdb_binary", "imdb_multi")
WIDTH, DEPTH, BATCH, GRAPHS = 64, 4, 64, 500


def compare(graphs: GraphCollection) -> tuple[float, float]:
    """Seconds of a step with dense batches and on one sparse graph."""
    by_degree = int(graphs.labels.max()) == 0
    adjacency = graphs.adjacency()
    own = adjacency.sum(-1).long() if by_degree else graphs.padded_labels()
    count = int(own.max()) + 1
    weights = initial_weights(
        weight_shapes("gcn", count, WIDTH, graphs.classes, DEPTH), torch.Generator().manual_seed(0)
    )
    dense, sparse = GraphNetwork("gcn", weights, DEPTH), geometric_network("gcn", weights, DEPTH)
    batches = []
    for some in graphs.sizes.argsort().split(BATCH):
        width = int(graphs.sizes[some].max())
        mask = graphs.mask(width)[some]
        diffusion = normalised_adjacency(adjacency[some, :width, :width], mask)
        batches.append((own[some, :width], diffusion, mask, graphs.targets[some]))
    mask = graphs.mask()
    number = torch.full(mask.shape, -1)
    number[mask] = torch.arange(int(mask.sum()))
    graph, one, other = adjacency.nonzero().T
    edge_index = torch.stack([number[graph, one], number[graph, other]])
    features, graph_of = functional.one_hot(own[mask], count).float(), mask.nonzero()[:, 0]

    def by_batches() -> None:
        for labels, diffusion, part, targets in batches:
            torch.autograd.backward(functional.cross_entropy(dense(labels, diffusion, part), targets, reduction="sum"))

    def at_once() -> None:
        logits = sparse(features, edge_index, graph_of)
        torch.autograd.backward(functional.cross_entropy(logits, graphs.targets, reduction="sum"))

    seconds = medians({"dense": by_batches, "sparse": at_once})
    return seconds["dense"], seconds["sparse"]


def main() -> None:
    """One line a collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collections", nargs="*", default=list(COLLECTIONS), help="data sets of graphs")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"GCN, width {WIDTH}, {DEPTH} layers, {options.threads} thread(s): CPU seconds a step")
    for name in options.collections:
        graphs = load_graphs(name)
        if len(graphs) > GRAPHS:
            graphs = graphs.take(torch.linspace(0, len(graphs) - 1, GRAPHS).round().long())
        dense, sparse = compare(graphs)
        print(f"{name:12s} dense {dense:.4f}  sparse {sparse:.4f}  sparse/dense {sparse / dense:.1f}")


if __name__ == "__main__":
    main()
