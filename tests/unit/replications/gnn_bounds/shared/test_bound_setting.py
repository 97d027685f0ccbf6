"""Bounds follow from weights and norms, and move by known powers."""

from types import SimpleNamespace

import pytest
import torch

from common.bounds.graph_networks import liao_message_bound, spectral_bound
from common.models.graph_networks import initial_weights, weight_shapes
from replications.gnn_bounds.shared.bound_setting import Setting, norms_of, setting_of


def made(model: str, weights: list[torch.Tensor]) -> Setting:
    run = SimpleNamespace(model=model, depth=4, width=5, margin=1.0, delta=0.1)
    neurons = torch.tensor([5.0, 5.0, 5.0, 2.0])
    return setting_of(run, weights, neurons, degree=7.0, diffusion_norm=3.0, feature_matrix_norm=2.0, examples=50)


def test_norms_and_bounds_are_those_of_the_weights() -> None:
    shapes = weight_shapes("mpnn", 6, 5, 2, 4)
    first, second, last = initial_weights(shapes, torch.Generator().manual_seed(0))
    weights = [first[None], second[None], last[None]]
    norms = norms_of("mpnn", weights, 4)
    stacked = torch.cat([first, second])
    layer = float(torch.linalg.matrix_norm(stacked.double(), 2))
    assert norms["layer_spectral"].tolist()[0] == pytest.approx(
        [layer] * 3 + [float(torch.linalg.matrix_norm(last, 2))]
    )
    setting = made("mpnn", weights)
    ours = spectral_bound(
        norms["layer_spectral"],
        norms["layer_frobenius"],
        neurons=setting.neurons,
        feature_norm=2.0,
        diffusion_norm=3.0,
        examples=50,
    )
    liao = liao_message_bound(
        norms["shared_spectral"],
        norms["shared_frobenius"],
        depth=4,
        width=5,
        feature_norm=1.0,
        degree=7.0,
        examples=50,
        margin=1.0,
        delta=0.1,
    )
    assert torch.equal(setting.ours(), ours)
    assert torch.equal(setting.liao(), liao)


def test_settings_moved_along_an_axis_move_the_bounds_by_the_known_powers() -> None:
    weights = [
        weight[None] for weight in initial_weights(weight_shapes("gcn", 6, 5, 2, 4), torch.Generator().manual_seed(0))
    ]
    norms = norms_of("gcn", weights, 4)
    setting = made("gcn", weights)
    assert float(setting.ours() / setting.without_graph().ours()) == pytest.approx(27)
    assert float(setting.scaled_weights(2).ours() / setting.ours()) == pytest.approx(16)
    assert float(setting.unit_features().ours() * 2) == pytest.approx(float(setting.ours()))
    deeper = setting.deeper(2)
    assert deeper.layer_spectral.shape == (1, 6)
    mean = norms["layer_spectral"][0, :3].log().mean().exp()
    assert float(deeper.layer_spectral.prod() / setting.layer_spectral.prod()) == pytest.approx(float(mean) ** 2)
    assert setting.unit_weights().layer_spectral.unique().tolist() == [1.0]
