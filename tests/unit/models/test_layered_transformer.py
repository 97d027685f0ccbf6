import pytest
import torch
from torch.nn import functional

from common.hessian import Hessian, Problem, dense, trace
from common.models import LayeredTransformer, ModularTransformer


def transformer(layers: int) -> ModularTransformer:
    model = ModularTransformer(7, layers=layers, width=4, heads=2, members=2).double()
    model.initialise([torch.Generator().manual_seed(seed) for seed in (0, 1)])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(9))
    return model


def pairs() -> torch.Tensor:
    return torch.randint(7, (2, 30, 2), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_computes_what_the_member_computes(layers: int) -> None:
    model, inputs = transformer(layers), pairs()
    found = LayeredTransformer(model, 1)(inputs[1])
    torch.testing.assert_close(found, model(inputs)[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2])
def test_its_trace_from_sample_signs_is_that_of_the_members_hessian(layers: int) -> None:
    model, inputs = transformer(layers), pairs()[1]
    data = inputs, inputs.sum(-1) % 7
    exact = float(dense(Hessian(Problem(model.member(1), functional.cross_entropy, data))).trace())
    problem = Problem(LayeredTransformer(model, 1), functional.cross_entropy, data)
    found = trace(problem, method="sample signs", relative_error=0.01, budget=4000)
    assert found.method == "sample signs"  # every parameter: nothing is left to Hutchinson's probes
    assert abs(found.value - exact) < 4 * found.standard_error < 0.1 * exact
