"""Dense graph networks compute what torch-geometric computes, for every member and whatever the padding."""

import subprocess
import sys

import pytest
import torch

from common.models.graph_networks import (
    GraphNetwork,
    gcn_logits,
    geometric_network,
    initial_weights,
    member_logits,
    message_passing_logits,
    normalised_adjacency,
    walk_adjacency,
    weight_shapes,
)

LABELS, WIDTH, CLASSES = 4, 6, 3


@pytest.fixture
def graphs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adjacency, labels and mask of three graphs of 5, 3 and 1 nodes, padded to 6 places."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(6) < torch.tensor([[5], [3], [1]])
    upper = (torch.rand(3, 6, 6, generator=generator) < 0.6).float().triu(1)
    adjacency = (upper + upper.mT) * mask[:, :, None] * mask[:, None, :]
    return adjacency, torch.randint(LABELS, (3, 6), generator=generator), mask


def weights_of(model: str, depth: int, members: int = 2) -> list[torch.Tensor]:
    shapes = weight_shapes(model, LABELS, WIDTH, CLASSES, depth)
    drawn = [initial_weights(shapes, torch.Generator().manual_seed(seed)) for seed in range(members)]
    return [torch.stack(list(column)) for column in zip(*drawn, strict=True)]


def logits_of(model: str, weights: list[torch.Tensor], depth: int, graphs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    adjacency, labels, mask = graphs
    if model == "gcn":
        return gcn_logits(weights, labels, normalised_adjacency(adjacency, mask), mask)
    return message_passing_logits(weights, labels, adjacency, mask, depth)


@pytest.mark.parametrize("model", ["gcn", "mpnn"])
@pytest.mark.parametrize("depth", [2, 3, 5])
def test_dense_networks_equal_those_of_torch_geometric(model: str, depth: int, graphs) -> None:
    pytest.importorskip("torch_geometric")
    adjacency, labels, mask = graphs
    weights = weights_of(model, depth)
    dense = logits_of(model, weights, depth, graphs)
    number = torch.full(mask.shape, -1)
    number[mask] = torch.arange(int(mask.sum()))
    graph, one, other = adjacency.nonzero().T
    edge_index = torch.stack([number[graph, one], number[graph, other]])
    features = torch.nn.functional.one_hot(labels[mask], LABELS).float()
    graph_of = mask.nonzero()[:, 0]
    for member in range(2):
        sparse = geometric_network(model, [weight[member] for weight in weights], depth)
        torch.testing.assert_close(sparse(features, edge_index, graph_of), dense[member], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", ["gcn", "mpnn"])
def test_padding_and_its_labels_change_nothing(model: str, graphs) -> None:
    adjacency, labels, mask = graphs
    weights = weights_of(model, 4)
    padded = [torch.nn.functional.pad(adjacency, (0, 2, 0, 2)), torch.nn.functional.pad(labels, (0, 2), value=3)]
    wider = (*padded, torch.nn.functional.pad(mask, (0, 2)))
    torch.testing.assert_close(logits_of(model, weights, 4, wider), logits_of(model, weights, 4, graphs))


@pytest.mark.parametrize("model", ["gcn", "mpnn"])
def test_a_member_as_a_module_is_the_member(model: str, graphs) -> None:
    adjacency, labels, mask = graphs
    weights = weights_of(model, 3)
    diffusion = normalised_adjacency(adjacency, mask) if model == "gcn" else adjacency
    module = GraphNetwork(model, [weight[1] for weight in weights], 3)
    torch.testing.assert_close(module(labels, diffusion, mask), logits_of(model, weights, 3, graphs)[1])


def test_the_gcns_diffusion_has_norm_one_on_every_graph(graphs) -> None:
    adjacency, _, mask = graphs
    diffusion = normalised_adjacency(adjacency, mask)
    assert torch.linalg.eigvalsh(diffusion).abs().amax(-1).tolist() == pytest.approx([1, 1, 1])
    assert float(diffusion[~mask].abs().max()) == 0


def test_the_two_layer_message_network_does_not_see_the_graph(graphs) -> None:
    adjacency, labels, mask = graphs
    weights = weights_of("mpnn", 2)
    with_edges = message_passing_logits(weights, labels, adjacency, mask, 2)
    assert torch.equal(with_edges, message_passing_logits(weights, labels, torch.zeros_like(adjacency), mask, 2))


def test_graphsage_takes_means_over_neighbours(graphs) -> None:
    adjacency, labels, mask = graphs
    walk, degrees = walk_adjacency(adjacency), adjacency.sum(-1)
    torch.testing.assert_close(walk.sum(-1), (degrees > 0).float())
    torch.testing.assert_close(walk * degrees[..., None], adjacency)
    weights = weights_of("sage", 4)
    wanted = message_passing_logits(weights, labels, walk, mask, 4)
    assert torch.equal(member_logits("sage", weights, labels, walk, mask, depth=4), wanted)


def test_gin_is_the_mean_of_message_networks_of_every_depth(graphs) -> None:
    adjacency, labels, mask = graphs
    first, second, *readouts = weights_of("gin", 4)
    layers = [
        message_passing_logits([first, second, readout], labels, adjacency, mask, depth)
        for depth, readout in enumerate(readouts, start=2)
    ]
    mine = member_logits("gin", [first, second, *readouts], labels, adjacency, mask, depth=4)
    torch.testing.assert_close(mine, torch.stack(layers).mean(0))


def test_initial_weights_fill_glorots_range() -> None:
    (weight,) = initial_weights([(30, 90)], torch.Generator().manual_seed(0))
    assert 0.99 < float(weight.abs().max()) / (6 / 120) ** 0.5 <= 1
    assert float(weight.std()) == pytest.approx((2 / 120) ** 0.5, rel=0.05)


def test_an_unknown_network_and_too_few_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="none of gcn, mpnn, sage and gin"):
        weight_shapes("gat", 3, 4, 2, 3)
    with pytest.raises(ValueError, match="two layers"):
        weight_shapes("gcn", 3, 4, 2, 1)


def test_importing_the_models_loads_no_torch_geometric() -> None:
    script = "import sys, common.models, common.models.graph_networks; print('torch_geometric' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr
