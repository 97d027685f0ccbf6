"""Batches and folds hold every graph once."""

import pytest
import torch

from replications.gnn_bounds.shared.graph_data import generated, prepare, stratified_folds


def test_folds_are_stratified_and_partition_the_graphs() -> None:
    targets = torch.tensor([0] * 20 + [1] * 30 + [2] * 7)
    fold = stratified_folds(targets, 5, torch.Generator().manual_seed(0))
    for label in range(3):
        counts = fold[targets == label].bincount(minlength=5)
        assert int(counts.max() - counts.min()) <= 1
    assert not torch.equal(fold, stratified_folds(targets, 5, torch.Generator().manual_seed(1)))


def test_batches_hold_every_graph_once_with_its_own_numbers() -> None:
    graphs = generated(40, 0.15, 1)
    data = prepare(graphs, "mpnn", 7, torch.device("cpu"))
    index = torch.cat([batch.index for batch in data.batches])
    assert index.sort().values.tolist() == list(range(40))
    adjacency = graphs.adjacency()
    assert data.degree == float(adjacency.sum(-1).max())
    assert data.diffusion_norm == pytest.approx(float(torch.linalg.matrix_norm(adjacency, 2).max()))
    features = torch.nn.functional.one_hot(adjacency.sum(-1).long(), data.labels).float()
    features *= graphs.mask()[..., None]
    assert data.feature_matrix_norm == pytest.approx(float(torch.linalg.matrix_norm(features, 2).max()))
    assert prepare(graphs, "gcn", 7, torch.device("cpu")).diffusion_norm == 1
