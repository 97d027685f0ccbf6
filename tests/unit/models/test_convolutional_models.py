"""The networks of Practical PAC-Bayes and pacGen: published parameter counts, shapes, initial weights."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from common.models.all_convolutional import AllConvolutional
from common.models.mnist_perceptron import MnistPerceptron
from common.models.preactivation_resnet import PreactivationResNet
from common.models.residual import initialise_convolutions
from common.models.wide_resnet import WideResNet

THIN: dict[str, Any] = {
    "wide": lambda: WideResNet(10, 2, classes=7, base=4),
    "preactivation": lambda: PreactivationResNet(11, width=4, classes=7),
    "all convolutional": lambda: AllConvolutional(width=4, classes=7),
}


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (MnistPerceptron, 9_960),
        (AllConvolutional, 1_387_108),
        (PreactivationResNet, 1_726_388),
        (WideResNet, 36_546_980),
        (lambda: WideResNet(58, 3, classes=10), 7_661_722),
        (lambda: WideResNet(58, 3, classes=100), 7_679_092),
        (lambda: WideResNet(58, 3, classes=200), 7_698_392),
    ],
)
def test_parameter_counts_are_the_published_ones(make: Any, count: int) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in make().parameters()) == count


@pytest.mark.parametrize("name", THIN)
@pytest.mark.parametrize("side", [16, 32, 64])
def test_any_side_gives_a_logit_for_each_class(name: str, side: int) -> None:
    model = THIN[name]().eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, side, side)).shape == (2, 7)


@pytest.mark.parametrize("name", THIN)
def test_initial_weights_come_from_the_generator_alone(name: str) -> None:
    first, second, other = (THIN[name]() for _ in range(3))
    for model, seed in ((first, 5), (second, 5), (other, 6)):
        model.initialise(torch.Generator().manual_seed(seed))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


def test_initial_weights_have_the_deviation_of_their_rule() -> None:
    layer = nn.Sequential(nn.Conv2d(40, 60, 3))
    initialise_convolutions(layer, torch.Generator().manual_seed(0), "fan_out_normal")
    assert float(layer[0].weight.detach().std()) == pytest.approx(math.sqrt(2 / (60 * 9)), rel=0.02)
    assert float(layer[0].bias.detach().abs().max()) == 0
    initialise_convolutions(layer, torch.Generator().manual_seed(0), "xavier_uniform")
    bound = math.sqrt(2) * math.sqrt(6 / (100 * 9))
    weight = layer[0].weight.detach()
    assert float(weight.abs().max()) <= bound
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_a_wide_block_without_its_branch_is_the_identity() -> None:
    model = WideResNet(10, 1, classes=3, base=4)
    block = model.blocks[0]
    with torch.no_grad():
        block.convolution2.weight.zero_()
        block.convolution2.bias.zero_()
    features = torch.randn(2, 4, 8, 8)
    assert torch.equal(block(features), features)


@pytest.mark.parametrize("make", [lambda: WideResNet(12), lambda: PreactivationResNet(12)])
def test_a_depth_that_the_blocks_cannot_fill_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="depth 12"):
        make()


def test_a_layer_without_a_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="LayerNorm"):
        initialise_convolutions(nn.Sequential(nn.LayerNorm(2)), torch.Generator(), "fan_out_normal")
