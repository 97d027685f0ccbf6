"""Graphs in the forms that sources have, to the decoded files that the registry names.

A collection of small graphs is one file `<name>.graphs` in the form of `canonical_graphs.py`, which is the same
whatever order a source has its graphs and nodes in. One network is a file `<name>.network`: int32 [edges, 2],
little-endian, sorted, the smaller node first. Edges are undirected and stand once; loops are left out.
"""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from common.datasets.canonical_graphs import Graph, collection_bytes
from common.datasets.decoding import Candidate, decoded, find

if TYPE_CHECKING:  # imported where it is used, so that looking at the registry stays quick
    import numpy as np


def tu_text(folder: Path, name: str) -> Iterator[Candidate]:
    """The text files of the TU collection: `<name>_A.txt`, `_graph_indicator`, `_graph_labels`, `_node_labels`."""
    stem = Path(name).stem
    yield from decoded(
        find(folder, f"{stem}_A.txt"),
        lambda path: collection_bytes(_read_tu(path.parent, stem)),
        "with its companions a whole collection of graphs",
    )


def _read_tu(folder: Path, stem: str) -> list[Graph]:
    import numpy as np

    edges = simple_edges(_integers((folder / f"{stem}_A.txt").read_text()).reshape(-1, 2) - 1)
    graph_of = _integers((folder / f"{stem}_graph_indicator.txt").read_text()) - 1
    targets = _integers((folder / f"{stem}_graph_labels.txt").read_text())
    labelled = folder / f"{stem}_node_labels.txt"
    labels = _integers(labelled.read_text()) if labelled.is_file() else np.zeros(len(graph_of), dtype=np.int64)
    if (np.diff(graph_of) < 0).any() or len(labels) != len(graph_of):
        raise ValueError("nodes do not stand graph after graph, or labels are missing")
    if (graph_of[edges[:, 0]] != graph_of[edges[:, 1]]).any():
        raise ValueError("an edge joins two graphs")
    starts = np.searchsorted(graph_of, np.arange(len(targets) + 1))
    bounds = np.searchsorted(edges[:, 0], starts)
    return [
        Graph(int(target), labels[start:stop], edges[low:high] - start)
        for target, start, stop, low, high in zip(
            targets, starts[:-1], starts[1:], bounds[:-1], bounds[1:], strict=True
        )
    ]


def adjacency_text(folder: Path, name: str) -> Iterator[Candidate]:
    """One text file: the number of graphs; for each `nodes class`; for each node a line `label degree neighbour …`.

    The file is called `<name>.txt`, or so without the hyphen (`IMDBBINARY.txt`).
    """
    stem = Path(name).stem
    files = [
        path for spelled in dict.fromkeys((stem, stem.replace("-", ""))) for path in find(folder, f"{spelled}.txt")
    ]
    yield from decoded(
        files, lambda path: collection_bytes(_read_adjacency(path.read_text())), "a whole collection of graphs"
    )


def _read_adjacency(text: str) -> list[Graph]:
    import numpy as np

    numbers = _integers(text)
    graphs, place = [], 1
    for _ in range(int(numbers[0])):
        nodes, target = int(numbers[place]), int(numbers[place + 1])
        place += 2
        labels, pairs = np.empty(nodes, dtype=np.int64), []
        for node in range(nodes):
            labels[node], degree = numbers[place], int(numbers[place + 1])
            neighbours = numbers[place + 2 : place + 2 + degree]
            pairs.append(np.column_stack([np.full(len(neighbours), node), neighbours]))
            place += 2 + degree
        edges = simple_edges(np.concatenate(pairs))
        if len(edges) and (edges.min() < 0 or edges.max() >= nodes):
            raise ValueError("an edge leads to a node that does not exist")
        graphs.append(Graph(target, labels, edges))
    if place != len(numbers):
        raise ValueError(f"{len(numbers)} numbers stand in it where {place} are announced")
    return graphs


def simple_edges(pairs: "np.ndarray") -> "np.ndarray":
    """Pairs of nodes [any, 2] as a simple undirected graph: no loops, each edge once, smaller node first, sorted."""
    import numpy as np

    ordered = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1).astype(np.int64)
    if not len(ordered):
        return ordered
    span = int(ordered.max()) + 1
    keys = np.unique(ordered[:, 0] * span + ordered[:, 1])
    return np.column_stack([keys // span, keys % span])


def _integers(text: str) -> "np.ndarray":
    """All integers of a text that commas and white space part (int64)."""
    import warnings

    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text.replace(",", " "), dtype=np.int64, sep=" ")
        except DeprecationWarning as error:
            raise ValueError("something that is no integer stands in it") from error


def edge_text(folder: Path, name: str) -> Iterator[Candidate]:
    """A line an edge, `from to`; comments begin with #. A first line `nodes lines` that counts the rest is no edge."""
    yield from _network(folder, name, (".txt", ".txt.gz"), _read_edge_text)


def _read_edge_text(content: bytes) -> "np.ndarray":
    import numpy as np

    lines = [line for line in content.decode("utf-8").splitlines() if line and not line.startswith("#")]
    pairs = _integers("\n".join(lines)).reshape(-1, 2)
    rest = pairs[1:]
    if len(rest) and pairs[0, 1] == len(rest) and pairs[0, 0] == len(np.unique(rest)):
        return rest
    return pairs


def counted_edges(folder: Path, name: str) -> Iterator[Candidate]:
    """The `.jlg` form: a header `nodes,edges,u,graph`, then `from,to` from 1; usually compressed by gzip."""
    yield from _network(folder, name, (".jlg",), _read_counted)


def _read_counted(content: bytes) -> "np.ndarray":
    header, _, body = content.decode("utf-8").partition("\n")
    pairs = _integers(body).reshape(-1, 2) - 1
    if int(header.split(",")[1]) != len(pairs):
        raise ValueError(f"{len(pairs)} edges instead of {header.split(',')[1]}")
    return pairs


def graph_tool(folder: Path, name: str) -> Iterator[Candidate]:
    """The binary `.gt` form of graph-tool: header, comment, direction, then out-neighbours of each node."""
    yield from _network(folder, name, (".gt", ".gt.gz"), _read_graph_tool)


def _read_graph_tool(content: bytes) -> "np.ndarray":
    import numpy as np

    if content[:6] != "⛾ gt".encode() or content[6] != 1 or content[7] > 1:
        raise ValueError("no graph-tool file of version 1")
    order = ">" if content[7] else "<"
    wide = np.dtype(f"{order}u8")
    place = 16 + int(np.frombuffer(content, wide, 1, 8)[0])  # behind the comment
    nodes = int(np.frombuffer(content, wide, 1, place + 1)[0])  # a byte tells whether edges are directed
    place += 9
    kind = np.dtype(f"{order}u{next(size for size in (1, 2, 4, 8) if nodes <= 1 << 8 * size)}")
    pairs = []
    for node in range(nodes):
        degree = int(np.frombuffer(content, wide, 1, place)[0])
        neighbours = np.frombuffer(content, kind, degree, place + 8).astype(np.int64)
        pairs.append(np.column_stack([np.full(degree, node), neighbours]))
        place += 8 + degree * kind.itemsize
    joined = np.concatenate(pairs) if pairs else np.empty((0, 2), dtype=np.int64)
    if len(joined) and joined.max() >= nodes:
        raise ValueError("an edge leads to a node that does not exist")
    return joined


def _network(
    folder: Path, name: str, endings: tuple[str, ...], read: Callable[[bytes], "np.ndarray"]
) -> Iterator[Candidate]:
    """Files below `folder` that are called as the decoded one plus one of the endings, in whatever case."""
    wanted = {(Path(name).stem + ending).lower() for ending in endings}
    found = (path for path in folder.rglob("*") if path.name.lower() in wanted and path.is_file())

    def edges(path: Path) -> bytes:
        content = path.read_bytes()
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        return simple_edges(read(content)).astype("<i4").tobytes()

    yield from decoded(sorted(found, key=lambda path: (len(path.parts), path)), edges, "a whole list of edges")
