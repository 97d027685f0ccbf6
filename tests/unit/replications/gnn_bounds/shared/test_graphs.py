"""Graphs, their spectral norms, and the inequality ‖P‖₂ ≤ d on thousands of random graphs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replications.gnn_bounds.graph_dependence import random_ensemble
from replications.gnn_bounds.shared.random_graphs import (
    barabasi_albert,
    block_model,
    erdos_renyi,
    path,
    ring_lattice,
    star,
)
from replications.gnn_bounds.shared.spectra import Network, diffusion_norms

NORMS = ("adjacency_norm", "walk_norm", "normalised_norm")


@pytest.mark.parametrize("seed", range(5))
def test_no_norm_exceeds_the_degree_on_thousands_of_random_graphs(seed: int) -> None:
    norms = random_ensemble(1000, torch.Generator().manual_seed(seed))
    for name in NORMS:
        assert bool((norms[name] <= norms["degree"] * (1 + 1e-9)).all())
    assert bool((norms["walk_norm"] <= norms["degree"].sqrt() * (1 + 1e-9)).all())
    ratios = norms["degree"] / norms["adjacency_norm"]
    assert float(ratios.max()) > 2  # the ensemble is not of regular graphs alone
    assert float(ratios.min()) < 1.01


def edge_sets(nodes: int) -> st.SearchStrategy[tuple[int, set[int]]]:
    """A number of nodes and which of their pairs are edges, at least one."""
    return st.tuples(st.just(nodes), st.sets(st.integers(0, nodes * (nodes - 1) // 2 - 1), min_size=1))


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 9).flatmap(edge_sets))
def test_no_norm_exceeds_the_degree_on_any_small_graph(graph: tuple[int, set[int]]) -> None:
    nodes, chosen = graph
    rows, columns = torch.triu_indices(nodes, nodes, 1)
    kept = torch.tensor(sorted(chosen))
    matrix = torch.zeros(1, nodes, nodes, dtype=torch.float64)
    matrix[0, rows[kept], columns[kept]] = 1
    norms = diffusion_norms(matrix + matrix.mT)
    for name in NORMS:
        assert float(norms[name]) <= float(norms["degree"]) * (1 + 1e-9)
    assert float(norms["normalised_norm"]) == pytest.approx(1)


def test_norms_are_those_of_the_matrices_themselves() -> None:
    graph = erdos_renyi(1, 12, 3.0, torch.Generator().manual_seed(0))
    matrix, degrees = graph[0], graph[0].sum(-1)
    inverse = torch.where(degrees > 0, 1 / degrees, 0.0)
    norms = diffusion_norms(graph)
    assert float(norms["adjacency_norm"]) == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)))
    assert float(norms["walk_norm"]) == pytest.approx(float(torch.linalg.matrix_norm(inverse[:, None] * matrix, 2)))
    root = inverse.sqrt()
    normalised = root[:, None] * matrix * root[None, :]
    assert float(norms["normalised_norm"]) == pytest.approx(float(torch.linalg.matrix_norm(normalised, 2)))


def test_a_star_a_path_and_a_ring_have_their_known_norms() -> None:
    norms = diffusion_norms(star(17))
    assert float(norms["adjacency_norm"]) == pytest.approx(4)
    assert float(norms["walk_norm"]) == pytest.approx(4)
    assert float(diffusion_norms(path(9))["adjacency_norm"]) == pytest.approx(2 * math.cos(math.pi / 10))
    ring = ring_lattice(11, 4)
    assert ring.sum(-1).unique().tolist() == [4]
    assert float(diffusion_norms(ring)["adjacency_norm"]) == pytest.approx(4)


@pytest.mark.parametrize("nodes", [30, 400])
def test_lanczos_on_a_sparse_network_finds_the_dense_norms(nodes: int) -> None:
    graph = barabasi_albert(1, nodes, 2, torch.Generator().manual_seed(1))
    network = Network(graph[0].triu().nonzero())
    found = network.norms(torch.Generator().manual_seed(2), 1e-10, 400)
    dense = diffusion_norms(graph)
    assert float(network.degrees.max()) == float(dense["degree"])
    for name in NORMS:
        assert found[name].value == pytest.approx(float(dense[name]), rel=1e-8)
        assert found[name].residual <= 1e-8
        assert found[name].products < 400


def test_a_network_with_isolated_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="isolated"):
        Network(torch.tensor([[0, 2], [2, 3]]))


def test_generated_graphs_are_simple_and_have_the_degree_that_is_asked_for() -> None:
    generator = torch.Generator().manual_seed(5)
    for graphs in (
        erdos_renyi(20, 100, 6.0, generator),
        block_model(20, 100, 6.0, 0.8, generator),
        barabasi_albert(20, 100, 3, generator),
    ):
        assert torch.equal(graphs, graphs.mT)
        assert float(graphs.diagonal(dim1=1, dim2=2).abs().max()) == 0
        assert set(graphs.unique().tolist()) == {0.0, 1.0}
        assert float(graphs.sum(-1).mean()) == pytest.approx(6, abs=0.3)


def test_a_block_model_has_its_share_of_edges_inside_the_blocks() -> None:
    graphs = block_model(50, 80, 8.0, 0.75, torch.Generator().manual_seed(0))
    inside = graphs[:, :40, :40].sum() + graphs[:, 40:, 40:].sum()
    assert float(inside / graphs.sum()) == pytest.approx(0.75, abs=0.01)


def test_attachment_prefers_nodes_with_many_neighbours() -> None:
    generator = torch.Generator().manual_seed(0)
    hubs = barabasi_albert(20, 120, 3, generator).sum(-1).amax(-1).mean()
    even = erdos_renyi(20, 120, 6.0, generator).sum(-1).amax(-1).mean()
    assert float(hubs) > 1.6 * float(even)
