"""A collection of graphs in a form that does not depend on the order of graphs and nodes, or on the names of classes.

Nodes are ordered by colour refinement. Where it leaves nodes alike that are no twins, one class of twins is set apart
and the refinement goes on. Which of them is set apart makes no difference where the alike nodes are images of each
other under a symmetry of the graph; the registered collections come out equal from shuffled graphs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # imported where it is used, so that looking at the registry stays quick
    import numpy as np


class Graph(NamedTuple):
    """One graph: raw class, raw node labels [nodes], edges [edges, 2] with each edge once."""

    target: int
    labels: "np.ndarray"
    edges: "np.ndarray"


def collection_bytes(graphs: list[Graph]) -> bytes:
    """The graphs, canonical, as `packed` writes them.

    Node labels are numbered from the most frequent down. Classes are numbered by size, then by their graphs; graphs
    stand by class, nodes, edges, and content.
    """
    import numpy as np

    names, counts = np.unique(np.concatenate([graph.labels for graph in graphs]), return_counts=True)
    rank = {int(name): place for place, name in enumerate(names[np.argsort(-counts, kind="stable")])}
    by_class: dict[int, list[tuple[int, int, bytes, bytes]]] = {}
    for graph in graphs:
        labels = np.array([rank[int(label)] for label in graph.labels], dtype=np.int64)
        order = canonical_order(len(labels), graph.edges, labels)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        edges = np.sort(place[graph.edges], axis=1)
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        row = (len(labels), len(edges), labels[order].astype("<u2").tobytes(), edges.astype("<u2").tobytes())
        by_class.setdefault(graph.target, []).append(row)
    classes = sorted((len(rows), sorted(rows)) for rows in by_class.values())
    return packed([(number, *row) for number, (_, members) in enumerate(classes) for row in members])


def packed(rows: Sequence[tuple[int, int, int, bytes, bytes]]) -> bytes:
    """Graphs as little-endian integers: int32 number of graphs; int32 [graphs, 3] nodes, edges and class of each;
    uint16 [nodes] labels, graph after graph; uint16 [edges, 2] nodes of each edge within its graph, smaller first.

    Args:
        rows: class, nodes, edges, and labels and edges in bytes of each graph.
    """
    import numpy as np

    table = np.array([(nodes, edges, number) for number, nodes, edges, _, _ in rows], dtype="<i4")
    parts = [np.array([len(rows)], dtype="<i4").tobytes(), table.tobytes()]
    return b"".join([*parts, *(row[3] for row in rows), *(row[4] for row in rows)])


def canonical_order(nodes: int, edges: "np.ndarray", labels: "np.ndarray") -> "np.ndarray":
    """An order of the nodes [nodes] that depends on the graph and its labels, up to symmetries."""
    import numpy as np

    adjacency = np.zeros((nodes, nodes), dtype=np.float32)
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1
    twins = _twins(adjacency)
    colours = _refined(adjacency, labels)
    while True:
        pairs = np.unique(np.column_stack([colours, twins]), axis=0)
        cells, first, sizes = np.unique(pairs[:, 0], return_index=True, return_counts=True)
        if (sizes == 1).all():
            return np.lexsort((twins, colours))
        split = int(np.argmax(sizes > 1))
        apart = twins == pairs[first[split], 1]
        colours = _refined(adjacency, 2 * colours + 1 - ((colours == cells[split]) & apart))


def _refined(adjacency: "np.ndarray", colours: "np.ndarray") -> "np.ndarray":
    """The coarsest colouring below `colours` in which alike nodes have equally many neighbours of each colour."""
    import numpy as np

    count = 0
    while True:
        distinct, colours = np.unique(colours, return_inverse=True)
        if len(distinct) == count or len(distinct) == len(colours):
            return colours
        count = len(distinct)
        indicator = np.eye(count, dtype=np.float32)[colours]
        profile = np.column_stack([colours, (adjacency @ indicator).astype(np.int64)])
        _, colours = np.unique(profile, axis=0, return_inverse=True)


def _twins(adjacency: "np.ndarray") -> "np.ndarray":
    """Number of each node's class of twins: nodes with equal neighbours, themselves left out or counted in."""
    import numpy as np

    closed = adjacency + np.eye(len(adjacency), dtype=adjacency.dtype)
    _, within, sizes = np.unique(closed.astype(bool), axis=0, return_inverse=True, return_counts=True)
    _, apart = np.unique(adjacency.astype(bool), axis=0, return_inverse=True)
    return np.where(sizes[within] > 1, within, len(adjacency) + apart)
