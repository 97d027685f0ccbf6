"""The layer-wise measure and norms against dense matrices."""

import math

import pytest
import torch
from torch import nn

from replications.hessian_finetuning.shared.fine_tuning import Member
from replications.hessian_finetuning.shared.layer_measures import layer_measures
from tests.unit.replications.hessian_finetuning.tiny import example_hessians, network


def test_the_measure_is_that_of_dense_hessians() -> None:
    system, start = network(0, count=6), start_of(network(5).model)
    found = layer_measures(Member(system.model, start, system.train.examples(), system.test.examples()))
    inputs, labels = system.train.examples()
    losses = nn.functional.cross_entropy(system.model(inputs), labels, reduction="none")
    expected = 0.0
    for name in ("0.weight", "3.weight"):
        move = (dict(system.model.named_parameters())[name] - start[name]).detach().flatten()
        forms = [float(move @ hessian @ move) for hessian in example_hessians(system, name)]
        expected += math.sqrt(float(losses.detach().max()) * max(forms) / 6)
    assert found["measure"] == pytest.approx(expected, rel=1e-9)
    assert found["curvature"] * found["root_largest_loss"] == pytest.approx(found["measure"], rel=1e-9)


def test_norms_are_those_of_singular_values() -> None:
    system, start = network(0), start_of(network(5).model)
    found = layer_measures(Member(system.model, start, system.train.examples(), system.test.examples()))
    matrices = [dict(system.model.named_parameters())[name].detach() for name in ("0.weight", "3.weight")]
    largest = [float(torch.linalg.svdvals(matrix)[0]) for matrix in matrices]
    ratios = sum(float(matrix.square().sum()) / top**2 for matrix, top in zip(matrices, largest, strict=True))
    assert found["norm_product"] == pytest.approx(math.prod(largest) * math.sqrt(ratios / 24), rel=1e-9)
    assert found["weight_norm"] == pytest.approx(float(torch.cat([m.flatten() for m in matrices]).norm()), rel=1e-9)


def start_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
