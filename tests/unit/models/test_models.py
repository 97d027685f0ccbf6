import math

import pytest
import torch
from torch import nn

from common.models import FullyConnected, MnistConvNet, initialise_uniform, rescale


def test_mnist_network_has_21840_parameters():
    assert sum(parameter.numel() for parameter in MnistConvNet().parameters()) == 21_840


def test_outputs_are_equal_with_and_without_gradients():
    model, images = MnistConvNet(), torch.randn(4, 1, 28, 28)
    with torch.no_grad():
        without = model(images)
    assert torch.equal(model(images).detach(), without)
    assert without.shape == (4, 10)


def test_initial_weights_come_from_the_generator_alone():
    first, second, other = MnistConvNet(), MnistConvNet(), MnistConvNet()
    for model, seed in ((first, 5), (second, 5), (other, 6)):
        initialise_uniform(model, torch.Generator().manual_seed(seed))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.hidden.weight, other.hidden.weight)


def test_initial_weights_fill_the_range_of_pytorchs_default():
    layer = nn.Linear(400, 300)
    initialise_uniform(layer, torch.Generator().manual_seed(0))
    bound = 1 / math.sqrt(400)
    for values in (layer.weight, layer.bias):
        assert float(values.detach().abs().max()) <= bound
    assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.01)


def test_a_layer_without_a_rule_is_refused():
    with pytest.raises(ValueError, match="LayerNorm"):
        initialise_uniform(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)), torch.Generator())


def test_rescaled_layers_leave_the_function() -> None:
    model, inputs = FullyConnected((7, 6, 5, 3)).double(), torch.randn(5, 7).double()
    before, first = model(inputs), model.layers[0].get_parameter("weight").detach().clone()
    rescale(model, 3.0)
    assert torch.allclose(model(inputs), before, rtol=1e-10)
    assert torch.equal(model.layers[0].get_parameter("weight"), 3 * first)
