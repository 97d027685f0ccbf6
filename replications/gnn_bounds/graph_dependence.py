"""Table 1: by which factor each bound grows with the graph, on generated and real graphs, as depth grows."""

from collections.abc import Sequence
from typing import Literal

import torch

from common.bounds.graph_networks import (
    degree_power,
    half_degree_power,
    message_degree_power,
    spectral_mean,
    spectral_power,
)
from common.datasets.graphs import load_graphs, load_network
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext

from .shared.random_graphs import (
    barabasi_albert,
    block_model,
    erdos_renyi,
    path,
    ring_lattice,
    star,
    with_probabilities,
)
from .shared.spectra import Network, diffusion_norms

OURS = "our choice; Table 1 names no graphs"
Kind = Literal[
    "star", "path", "regular", "erdos_renyi", "barabasi_albert", "block_model", "ensemble", "collection", "network"
]


class Parameters(ExperimentParameters):
    """Settings of one kind of graph."""

    kind: Kind = Field("star", description="the graph: generated, an ensemble of small ones, or real", source=OURS)
    dataset: DatasetName = Field("mutag", description="where the real graphs come from", source=OURS)
    nodes: int = Field(200, ge=8, description="nodes of a generated graph", source=OURS, unit="nodes")
    degree: int = Field(6, ge=2, description="mean degree of a generated graph", source=OURS)
    share_within: float = Field(0.8, gt=0, lt=1, description="share of edges inside a block", source=OURS)
    ensemble: int = Field(1000, ge=1, description="graphs of the ensemble", source="our choice", unit="graphs")
    depths: tuple[int, ...] = Field((2, 3, 4, 5, 6, 7, 8), description="numbers of layers l", source=OURS)
    tolerance: float = Field(1e-6, gt=0, description="relative residual at which Lanczos stops", source=OURS)
    products: int = Field(400, ge=2, description="most products of a Lanczos run", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Norms of each graph, and the factors of Table 1 at the largest norms of the kind."""
    for number, run in enumerate(runs):
        norms = _norms(run, context.generator(run, "graph"))
        ratios = torch.stack([norms["degree"] / norms[name] for name in norms if name.endswith("_norm")])
        largest = {name: float(values.max()) for name, values in norms.items()}
        context.record(
            run,
            row="graph",
            graphs=len(norms["degree"]),
            smallest_ratio=float(ratios.min()),
            median_ratio=float((norms["degree"] / norms["adjacency_norm"]).median()),
            **largest,
        )
        degree, norm = largest["degree"], largest["adjacency_norm"]
        for depth in run.depths:
            context.record(
                run,
                row="depth",
                depth=depth,
                degree_power=float(degree_power(degree, depth)),
                half_degree_power=float(half_degree_power(degree, depth)),
                message_degree_power=float(message_degree_power(degree, depth)),
                gcn=float(spectral_power(largest["normalised_norm"], depth)),
                mpnn=float(spectral_power(norm, depth)),
                gin=float(spectral_mean(norm, depth)),
                graphsage=float(spectral_power(largest["walk_norm"], depth)),
            )
        context.progress(number + 1, len(runs))


def _norms(run: Parameters, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Degree and norms of each graph [graphs] of the kind."""
    if run.kind == "network":
        network = Network(load_network(run.dataset))
        norms = network.norms(generator, run.tolerance, run.products)
        values = {"degree": float(network.degrees.max())} | {name: norm.value for name, norm in norms.items()}
        return {name: torch.tensor([value], dtype=torch.float64) for name, value in values.items()}
    if run.kind == "collection":
        graphs = load_graphs(run.dataset)
        parts = [diffusion_norms(graphs.take(some).adjacency()) for some in graphs.sizes.argsort().split(200)]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if run.kind == "ensemble":
        return random_ensemble(run.ensemble, generator)
    return diffusion_norms(_generated(run, generator))


def _generated(run: Parameters, generator: torch.Generator) -> torch.Tensor:
    if run.kind == "star":
        return star(run.nodes)
    if run.kind == "path":
        return path(run.nodes)
    if run.kind == "regular":
        return ring_lattice(run.nodes, run.degree)
    if run.kind == "erdos_renyi":
        return erdos_renyi(1, run.nodes, run.degree, generator)
    if run.kind == "barabasi_albert":
        return barabasi_albert(1, run.nodes, run.degree // 2, generator)
    return block_model(1, run.nodes, run.degree, run.share_within, generator)


def random_ensemble(count: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Norms of `count` small graphs with edges of random, unequal probabilities; one without edges gets one.

    The probability of an edge is c wᵢ wⱼ with w uniform in (0, 1)^k and c, k drawn anew for each graph, which gives
    sparse and dense, even and star-like ones of 2 to 24 nodes.
    """
    nodes = 24
    weights = torch.rand(count, nodes, generator=generator, dtype=torch.float64)
    weights = weights ** (8 * torch.rand(count, 1, generator=generator, dtype=torch.float64))
    present = torch.arange(nodes) < torch.randint(2, nodes + 1, (count, 1), generator=generator)
    weights = weights * present
    level = torch.rand(count, 1, 1, generator=generator, dtype=torch.float64)
    matrix = with_probabilities((level * weights[:, :, None] * weights[:, None, :]).clamp(max=1), generator)
    empty = matrix.sum((-1, -2)) == 0
    matrix[empty, 0, 1] = matrix[empty, 1, 0] = 1  # the smallest graph with an edge
    return diffusion_norms(matrix)
