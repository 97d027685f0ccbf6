import math

import pytest
import torch
from torch.nn import functional

from benchmarks.plain_transformer import PlainTransformer
from common.hessian import Hessian, Problem, dense, trace
from common.models import LayeredTransformer, ModularTransformer


def transformer(layers: int, members: int = 2, **settings: int) -> ModularTransformer:
    sizes = {"modulus": 7, "width": 8, "heads": 2, **settings}
    model = ModularTransformer(**sizes, layers=layers, members=members).double()
    model.initialise([torch.Generator().manual_seed(seed) for seed in range(members)])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(9))
    return model


def pairs(members: int, count: int = 20, modulus: int = 7) -> torch.Tensor:
    return torch.randint(modulus, (members, count, 2), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", [PlainTransformer, LayeredTransformer])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_logits_and_gradients_are_those_of_plain_layers_at_all_positions_and_at_those_that_matter(
    kind: type[LayeredTransformer], layers: int
) -> None:
    model, inputs = transformer(layers), pairs(2)
    targets = inputs.sum(-1) % 7
    logits = model(inputs)
    functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum").backward()
    for member in range(2):
        plain = kind(model, member)
        expected = plain(inputs[member])
        torch.testing.assert_close(logits[member], expected, rtol=0, atol=1e-12)
        functional.cross_entropy(expected, targets[member], reduction="sum").backward()
        torch.testing.assert_close(model.tokens.grad[member], plain.tokens.weight.grad, rtol=0, atol=1e-11)
        for block, its in zip(model.blocks, plain.blocks, strict=True):
            torch.testing.assert_close(block.query.grad[member].T, its.query.weight.grad, rtol=0, atol=1e-11)
            torch.testing.assert_close(block.expand.grad[member].T, its.expand.weight.grad, rtol=0, atol=1e-11)


def test_positions_are_those_of_the_published_code() -> None:
    found = ModularTransformer(7, layers=1, width=6, heads=2).positions
    for place in range(4):
        for k in range(6):
            angle = place / 10_000 ** ((k - k % 2) / 6)
            assert float(found[place, k]) == pytest.approx(math.cos(angle) if k % 2 else math.sin(angle), abs=1e-6)


def test_members_do_not_influence_each_other_and_a_member_alone_is_the_same_network() -> None:
    model, inputs = transformer(2), pairs(2)
    together = model(inputs)
    alone = model.member(1)
    torch.testing.assert_close(alone(inputs[1]), together[1], rtol=0, atol=1e-12)
    with torch.no_grad():
        model.tokens[0] += 1
    assert torch.equal(model(inputs)[1], together[1])
    torch.testing.assert_close(alone(inputs[1:]), together[1:], rtol=0, atol=1e-12)


def test_initial_weights_of_a_member_come_from_its_own_generator() -> None:
    both = ModularTransformer(7, layers=1, width=8, heads=2, members=2)
    both.initialise([torch.Generator().manual_seed(seed) for seed in (3, 4)])
    one = ModularTransformer(7, layers=1, width=8, heads=2).initialise([torch.Generator().manual_seed(4)])
    for mine, its in zip(both.parameters(), one.parameters(), strict=True):
        assert torch.equal(mine[1], its[0])


def test_initial_weights_have_the_spread_of_pytorchs_layers() -> None:
    model = ModularTransformer(97, layers=1, width=64, heads=4).initialise([torch.Generator().manual_seed(0)])
    assert float(model.tokens.detach().std()) == pytest.approx(1, rel=0.03)
    assert float(model.blocks[0].contract.detach().std()) == pytest.approx(1 / (3 * 256) ** 0.5, rel=0.03)
    assert float(model.blocks[0].contract.detach().abs().max()) <= 1 / 16


@pytest.mark.parametrize("layers", [1, 2])
def test_the_trace_of_its_layers_from_sample_signs_is_that_of_the_members_hessian(layers: int) -> None:
    model, inputs = transformer(layers, width=4), pairs(2, 30)[1]
    data = inputs, inputs.sum(-1) % 7
    exact = float(dense(Hessian(Problem(model.member(1), functional.cross_entropy, data))).trace())
    problem = Problem(LayeredTransformer(model, 1), functional.cross_entropy, data)
    found = trace(problem, method="sample signs", relative_error=0.01, budget=4000)
    assert found.method == "sample signs"  # every parameter: nothing is left to Hutchinson's probes
    assert abs(found.value - exact) < 4 * found.standard_error < 0.1 * exact


@pytest.mark.parametrize(
    ("settings", "says"), [({"width": 9}, "do not divide"), ({"members": 0}, "positive"), ({"layers": 0}, "positive")]
)
def test_impossible_sizes_are_refused(settings: dict[str, int], says: str) -> None:
    sizes = {"layers": 1, "width": 8, "heads": 2, "members": 1, **settings}
    with pytest.raises(ValueError, match=says):
        ModularTransformer(7, **sizes)


def test_pairs_of_another_number_of_members_are_refused() -> None:
    with pytest.raises(ValueError, match="expected pairs"):
        transformer(1)(pairs(3))
