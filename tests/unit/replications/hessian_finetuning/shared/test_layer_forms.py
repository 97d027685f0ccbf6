"""Quadratic forms of every example by layer against the toolkit's and against dense Hessians."""

import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, quadratic_forms_by_parameter
from replications.hessian_finetuning.shared.layer_forms import layer_forms, matrix_layers
from tests.unit.replications.hessian_finetuning.tiny import example_hessians, network


def directions(model: nn.Module) -> dict[str, torch.Tensor]:
    source = torch.Generator().manual_seed(3)
    names = matrix_layers(model)
    return {
        name: torch.randn(parameter.shape, generator=source, dtype=parameter.dtype)
        for name, parameter in model.named_parameters()
        if name in names
    }


@pytest.mark.parametrize("kind", ["smooth", "relu", "convolutional"])
def test_forms_of_each_example_are_those_of_its_dense_hessian(kind: str) -> None:
    system = network(0, kind=kind, count=5)
    found = directions(system.model)
    forms = layer_forms(Problem(system.model, nn.CrossEntropyLoss(), system.train.examples(), chunk=2), found)
    for name, direction in found.items():
        vector = direction.flatten()
        expected = [float(vector @ hessian @ vector) for hessian in example_hessians(system, name)]
        assert forms[name].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_their_mean_is_the_toolkits_form_of_the_mean_loss() -> None:
    system = network(1)
    problem = Problem(system.model, nn.CrossEntropyLoss(), system.train.examples())
    found = directions(system.model)
    whole = [found.get(name, torch.zeros_like(parameter)) for name, parameter in system.model.named_parameters()]
    expected = quadratic_forms_by_parameter(Hessian(problem), torch.cat([part.flatten() for part in whole]))
    for name, forms in layer_forms(problem, found).items():
        assert float(forms.mean()) == pytest.approx(expected[name], rel=1e-9)


def test_the_model_is_left_as_it_was() -> None:
    system = network(2)
    problem = Problem(system.model, nn.CrossEntropyLoss(), system.train.examples())
    before = [parameter.detach().clone() for parameter in system.model.parameters()]
    loss = problem.loss()
    layer_forms(problem, directions(system.model))
    assert problem.loss() == loss
    assert all(torch.equal(a, b) for a, b in zip(before, system.model.parameters(), strict=True))
    assert all(parameter.requires_grad for parameter in system.model.parameters())


def test_a_matrix_outside_known_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="outside linear and convolutional layers"):
        matrix_layers(nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 2)))
