"""Convolutions of single pixels as linear layers: the same network, and exact traces without its gradients."""

import pytest
import torch
from torch import nn

from common.hessian import Problem
from common.hessian.layers import LinearRule, rule_of
from common.models.mobilenet import InvertedResidual, MeanOverPositions
from replications.hessian_finetuning.shared.example_traces import example_traces
from replications.hessian_finetuning.shared.pointwise import AtEachPosition, with_linear_layers


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        InvertedResidual(4, 6, 1, 2), nn.Conv2d(6, 9, 1), nn.ReLU6(), MeanOverPositions(), nn.Linear(9, 3)
    ).eval()


def test_outputs_and_traces_of_single_examples_stay() -> None:
    plain, changed = network().double(), with_linear_layers(network()).double()
    maps, labels = torch.randn(5, 4, 2, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    torch.testing.assert_close(changed(maps), plain(maps))
    traces = [example_traces(Problem(model, nn.CrossEntropyLoss(), (maps, labels))) for model in (plain, changed)]
    torch.testing.assert_close(traces[1], traces[0])


def test_only_convolutions_of_single_pixels_are_replaced_by_layers_with_the_rule_of_matrices() -> None:
    found = [module for module in with_linear_layers(network()).modules() if isinstance(module, AtEachPosition)]
    assert [layer.linear.out_features for layer in found] == [8, 6, 9]
    assert all(rule_of(layer.linear) is LinearRule for layer in found)
    kept = [module for module in with_linear_layers(network()).modules() if isinstance(module, nn.Conv2d)]
    assert [layer.kernel_size for layer in kept] == [(3, 3)]


@pytest.mark.parametrize("options", [{"stride": 2}, {"padding": 1}, {"groups": 2}])
def test_a_convolution_that_skips_pads_or_groups_stays(options: dict[str, int]) -> None:
    model = with_linear_layers(nn.Sequential(nn.Conv2d(4, 2, 1, **options)))
    assert type(model[0]) is nn.Conv2d


@pytest.mark.parametrize(("device", "dtype"), [("meta", torch.float32), ("cpu", torch.float64)])
def test_a_layer_stays_where_and_what_the_convolution_was(device: str, dtype: torch.dtype) -> None:
    layer = with_linear_layers(nn.Sequential(nn.Conv2d(4, 2, 1, device=device, dtype=dtype)))[0]
    found = {(value.device.type, value.dtype) for value in layer.parameters()}
    assert found == {(device, dtype)}
