"""Graphs: whatever form and order a source has them in, the decoded bytes are the same."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from common.datasets import Registry, fetch, load_registry
from common.datasets.canonical_graphs import Graph, collection_bytes
from common.datasets.decoding import Undecodable
from common.datasets.graph_decoding import adjacency_text, counted_edges, edge_text, graph_tool, tu_text
from common.datasets.graphs import load_graphs, load_network, read_collection
from common.errors import UserError
from tests.unit.datasets.dataset_files import described, write_all

EDGES = np.array([[0, 3], [1, 3], [2, 3], [3, 4]])
SMALL = [
    Graph(1, np.array([7, 7, 9]), np.array([[0, 1], [1, 2]])),
    Graph(-1, np.array([7, 7, 7, 7]), np.array([[0, 1], [1, 2], [2, 3], [0, 3]])),
    Graph(1, np.array([9, 7]), np.array([[0, 1]])),
]


def tu_files(graphs: list[Graph]) -> dict[str, bytes]:
    """The graphs as the TU collection writes them: nodes from 1, each edge to and fro."""
    pairs, indicator, start = [], [], 1
    for number, graph in enumerate(graphs, 1):
        pairs += [f"{start + a}, {start + b}\n{start + b}, {start + a}\n" for a, b in graph.edges]
        indicator += [f"{number}\n"] * len(graph.labels)
        start += len(graph.labels)
    return {
        "S_A.txt": "".join(pairs).encode(),
        "S_graph_indicator.txt": "".join(indicator).encode(),
        "S_graph_labels.txt": "".join(f"{graph.target}\n" for graph in graphs).encode(),
        "S_node_labels.txt": "".join(f"{label}\n" for graph in graphs for label in graph.labels).encode(),
    }


def adjacency_file(graphs: list[Graph]) -> bytes:
    """The graphs as one text with a line of neighbours a node."""
    lines = [str(len(graphs))]
    for graph in graphs:
        lines.append(f"{len(graph.labels)} {graph.target}")
        for node, label in enumerate(graph.labels):
            neighbours = [b for a, b in graph.edges if a == node] + [a for a, b in graph.edges if b == node]
            lines.append(" ".join(map(str, [label, len(neighbours), *neighbours])))
    return "\n".join(lines).encode()


def shuffled(graphs: list[Graph], seed: int) -> list[Graph]:
    """The same graphs with nodes, edges and graphs in another order and classes called otherwise."""
    random = np.random.default_rng(seed)
    result = []
    for graph in graphs:
        place = random.permutation(len(graph.labels))
        labels = np.empty_like(graph.labels)
        labels[place] = graph.labels
        result.append(Graph(10 - graph.target, labels, random.permutation(place[graph.edges])))
    return [result[place] for place in random.permutation(len(result))]


def random_graphs(count: int) -> list[Graph]:
    """Graphs with many symmetries: joined cliques of equal size, rings, and random ones."""
    random = np.random.default_rng(3)
    graphs = []
    for number in range(count):
        if number % 3 == 0:
            size, cliques = int(random.integers(2, 5)), int(random.integers(2, 5))
            members = [[0, *range(1 + size * c, 1 + size * (c + 1))] for c in range(cliques)]
            edges = [(a, b) for clique in members for a in clique for b in clique if a < b]
            nodes = 1 + size * cliques
        elif number % 3 == 1:
            nodes = int(random.integers(3, 12))
            edges = [(k, (k + 1) % nodes) for k in range(nodes)]
        else:
            nodes = int(random.integers(4, 15))
            edges = [(a, b) for a in range(nodes) for b in range(a + 1, nodes) if random.random() < 0.3] or [(0, 1)]
        graphs.append(Graph(number % 2, random.integers(0, 2, nodes), np.array(edges)))
    return graphs


def test_the_order_of_graphs_and_nodes_and_the_names_of_classes_do_not_matter() -> None:
    graphs = random_graphs(60)
    expected = collection_bytes(graphs)
    assert all(collection_bytes(shuffled(graphs, seed)) == expected for seed in range(8))


def test_graphs_that_differ_give_other_bytes() -> None:
    other = [*SMALL[:2], Graph(1, np.array([9, 9]), np.array([[0, 1]]))]
    assert collection_bytes(other) != collection_bytes(SMALL)


def test_both_forms_of_a_collection_give_the_same_bytes(tmp_path: Path) -> None:
    write_all(tmp_path / "tu", tu_files(SMALL))
    write_all(tmp_path / "one", {"S.txt": adjacency_file(shuffled(SMALL, 1))})
    [(_, first)] = tu_text(tmp_path / "tu", "S.graphs")
    [(_, second)] = adjacency_text(tmp_path / "one", "S.graphs")
    assert first == second == collection_bytes(SMALL)


def test_a_file_without_the_hyphen_is_found(tmp_path: Path) -> None:
    write_all(tmp_path, {"AB.txt": adjacency_file(SMALL)})
    assert len(list(adjacency_text(tmp_path, "A-B.graphs"))) == 1


def test_a_collection_is_read_as_tensors() -> None:
    graphs = read_collection("small", collection_bytes(SMALL))
    assert (len(graphs), graphs.classes) == (3, 2)
    assert graphs.sizes.tolist() == [4, 2, 3]
    assert graphs.targets.tolist() == [0, 1, 1]  # the class of one graph stands before that of two
    assert graphs.edge_counts.tolist() == [4, 1, 2]
    assert graphs.labels.bincount().tolist() == [7, 2]  # the frequent label is 0
    degrees = graphs.adjacency().sum(-1)
    assert degrees.sum(-1).tolist() == [8, 2, 4]
    assert degrees[0].tolist() == [2, 2, 2, 2]
    assert graphs.padded_labels().shape == graphs.mask().shape == (3, 4)


def test_taking_graphs_takes_their_nodes_and_edges() -> None:
    graphs = read_collection("many", collection_bytes(random_graphs(30)))
    some = torch.tensor([17, 3, 3, 29])
    width = int(graphs.sizes.max())
    assert torch.equal(graphs.take(some).adjacency(width), graphs.adjacency()[some])
    assert torch.equal(graphs.take(some).padded_labels(width), graphs.padded_labels()[some])


@pytest.mark.parametrize("content", [b"3\n2 0\n0 1 1\n", b"1\n2 0\n0 1 1\n0 1 5\n", b"1\n1 0\n0 0\n9 9\n", b"x"])
def test_a_damaged_collection_is_one_phrase(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "S.txt").write_bytes(content)
    with pytest.raises(Undecodable, match=r"S\.txt is not a whole collection"):
        list(adjacency_text(tmp_path, "S.graphs"))


def test_tu_files_that_disagree_are_one_phrase(tmp_path: Path) -> None:
    write_all(tmp_path, {**tu_files(SMALL), "S_graph_indicator.txt": b"1\n" * 5})
    with pytest.raises(Undecodable, match=r"S_A\.txt is not with its companions a whole"):
        list(tu_text(tmp_path, "S.graphs"))


def gt_file(pairs: np.ndarray, nodes: int, big: bool = False) -> bytes:
    """A graph-tool file: out-neighbours of each node, without properties."""
    order = ">" if big else "<"
    content = "⛾ gt".encode() + bytes([1, big]) + struct.pack(f"{order}Q", 5) + b"hello" + b"\0"
    content += struct.pack(f"{order}Q", nodes)
    for node in range(nodes):
        neighbours = [int(b) for a, b in pairs if a == node]
        content += struct.pack(f"{order}Q{len(neighbours)}B", len(neighbours), *neighbours)
    return content


def forms(folder: Path) -> list[tuple[Callable[..., object], Path]]:
    """The same network, with loops and doubled edges, in every form."""
    lines = "# from to\n" + "".join(f"{b}\t{a}\n{a}\t{b}\n" for a, b in EDGES) + "2\t2\n"
    counted = f"5,{len(EDGES)},u,graph\n" + "".join(f"{a + 1},{b + 1}\n" for a, b in EDGES)
    header = f"5\t{len(EDGES)}\n" + "".join(f"{a}\t{b}\n" for a, b in EDGES)
    write_all(folder / "text", {"NET.txt": lines.encode()})
    write_all(folder / "packed", {"Net.txt.gz": gzip.compress(lines.encode(), mtime=0)})
    write_all(folder / "header", {"net.txt": header.encode()})
    write_all(folder / "jlg", {"net.jlg": gzip.compress(counted.encode(), mtime=0)})
    write_all(folder / "gt", {"net.gt.gz": gzip.compress(gt_file(EDGES, 5), mtime=0)})
    write_all(folder / "big", {"net.gt": gt_file(EDGES[::-1], 5, big=True)})
    decoders = {"text": edge_text, "packed": edge_text, "header": edge_text, "jlg": counted_edges}
    return [(decoders.get(name, graph_tool), folder / name) for name in [*decoders, "gt", "big"]]


def test_all_forms_of_a_network_give_the_same_bytes(tmp_path: Path) -> None:
    expected = EDGES.astype("<i4").tobytes()
    for decoder, folder in forms(tmp_path):
        assert [content for _, content in decoder(folder, "net.network")] == [expected], folder.name


@pytest.mark.parametrize(
    ("decoder", "name", "content"),
    [
        (edge_text, "net.txt", b"1 2\n3\n"),
        (edge_text, "net.txt", b"1 b\n"),
        (counted_edges, "net.jlg", b"5,3,u,graph\n1,2\n"),
        (graph_tool, "net.gt", gt_file(EDGES, 5)[:-3]),
        (graph_tool, "net.gt", gt_file(EDGES, 4)),
        (graph_tool, "net.gt", b"no graph at all"),
        (graph_tool, "net.gt.gz", gzip.compress(gt_file(EDGES, 5), mtime=0)[:-9]),
    ],
)
def test_a_damaged_network_is_one_phrase(tmp_path: Path, decoder, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Undecodable, match="is not a whole list of edges"):
        list(decoder(tmp_path, "net.network"))


def test_networks_and_collections_come_through_the_registry(
    cache: Path, mirror: Path, registry: Callable[..., Registry]
) -> None:
    write_all(mirror / "here", {**tu_files(SMALL), "net.txt": b"10 30\n20 30\n"})

    def alone(**content: bytes) -> Registry:
        files = described({name.replace("_", "."): data for name, data in content.items()})
        source = {"kind": "mirror", "folders": ["here"]}
        return registry(source, format="files", files=files, decoders=["tu_text", "adjacency_text", "edge_text"])

    network = alone(net_network=np.array([[10, 30], [20, 30]], "<i4").tobytes())
    assert load_network("digits", network).tolist() == [[0, 2], [1, 2]]  # numbered without gaps
    assert len(load_graphs("digits", alone(S_graphs=collection_bytes(SMALL)))) == 3
    with pytest.raises(UserError, match=r"no file \.graphs"):
        load_graphs("digits", network)


def test_official_homes_out_of_reach_are_attempts_without_addresses(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    report = fetch("ca_grqc")
    assert (report.attempts[-1].source, report.attempts[-1].outcome) == ("web ca-GrQc.txt.gz", "failed")
    assert "://" not in report.explanation()


@pytest.mark.parametrize(
    "address", ["http://x.org/a.gz", "file:///etc/passwd", "https://x.org/../a", "--help", "https://x.org"]
)
def test_a_web_address_is_a_plain_https_one(address: str) -> None:
    entry = load_registry().entry("ca_grqc").model_dump(mode="json")
    entry["sources"] = [{"kind": "web", "address": address}]
    with pytest.raises(ValueError, match="address"):
        Registry.model_validate({"x": entry})
