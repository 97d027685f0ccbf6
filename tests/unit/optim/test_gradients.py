"""What all gradient rules share: counted cost, exact return, and a state from which the same bits follow."""

import copy
from collections.abc import Callable, Iterable
from functools import partial

import pytest
import torch
from torch import nn

from common.optim import (
    GaussianNoise,
    GradientRule,
    IsotropicOpt,
    NoiseStability,
    PerturbationRule,
    PerturbedOpt,
    PlainGradient,
    SharpnessAware,
    WeightPerturbation,
)


def noisy(kind: type, optimiser: torch.optim.Optimizer, weights: Iterable[torch.Tensor], **settings: object):
    noise = GaussianNoise(list(weights), scale=0.1, generators=torch.Generator().manual_seed(5))
    return kind(optimiser, noise, **settings)


def perturbed(kind: type[PerturbedOpt], optimiser: torch.optim.Optimizer, _: object, **settings: object):
    source = torch.Generator().manual_seed(5)
    return kind(optimiser, PerturbationRule(eta=1.0), steps_per_epoch=2, generator=source, **settings)


def sharpness_aware(optimiser: torch.optim.Optimizer, _: object, **settings: object):
    return SharpnessAware(optimiser, rho=0.1, **settings)


@pytest.mark.parametrize(
    ("make", "cost"),
    [
        (lambda optimiser, _: PlainGradient(optimiser), 1),
        (partial(noisy, NoiseStability), 2),
        (partial(noisy, NoiseStability, draws=3, clean_weight=0.5), 7),
        (partial(noisy, WeightPerturbation, draws=2), 2),
        (partial(perturbed, PerturbedOpt), 1),
        (sharpness_aware, 2),
    ],
)
def test_the_cost_is_counted_in_gradients_and_weights_return_to_the_bit(make: Callable, cost: int) -> None:
    weight = nn.Parameter(torch.tensor([0.123456789, -7.7], dtype=torch.float64))
    before = weight.detach().clone()
    rule, calls = make(torch.optim.SGD([weight], lr=0.1), [weight]), []

    def loss() -> torch.Tensor:
        calls.append(1)
        return weight.square().sum()

    rule.fill(loss)
    assert torch.equal(weight.detach(), before)
    assert rule.gradient_evaluations == len(calls) == cost


@pytest.mark.parametrize(
    "make",
    [
        partial(noisy, NoiseStability, draws=2),
        partial(perturbed, PerturbedOpt),
        partial(perturbed, IsotropicOpt),
        sharpness_aware,
    ],
)
@pytest.mark.parametrize("statistics", ["of unperturbed passes", "of all passes"])
def test_a_training_resumed_after_any_step_ends_with_the_same_bits(make: Callable, statistics: str) -> None:
    inputs = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(16) % 2

    def made() -> tuple[nn.Module, GradientRule]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        given = {"model": model} if statistics == "of unperturbed passes" else {}
        return model, make(torch.optim.AdamW(model.parameters(), lr=0.01), model.parameters(), **given)

    def step(model: nn.Module, rule: GradientRule) -> None:
        rule.step(lambda: nn.functional.cross_entropy(model(inputs), targets))

    (model, rule), states = made(), []
    for _ in range(5):
        states.append(copy.deepcopy((model.state_dict(), rule.state_dict())))
        step(model, rule)
    for done, (weights, state) in enumerate(states):
        again, resumed = made()
        again.load_state_dict(weights)
        resumed.load_state_dict(state)
        for _ in range(5 - done):
            step(again, resumed)
        assert resumed.gradient_evaluations == rule.gradient_evaluations
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, again.state_dict()[name]), name


def test_parameters_in_the_place_of_an_optimiser_are_refused() -> None:
    with pytest.raises(ValueError, match=r"SharpnessAware takes an optimiser .* not a generator"):
        SharpnessAware(nn.Linear(3, 1).parameters(), rho=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "said"), [("differentiated", "a second time"), ("cut off", "does not require grad")])
def test_a_loss_without_its_graph_is_refused(given: str, said: str) -> None:
    model = nn.Linear(3, 1)

    def loss() -> torch.Tensor:
        value = model(torch.ones(4, 3)).square().mean()
        if given == "differentiated":
            value.backward()
        return value if given == "differentiated" else value.detach()

    with pytest.raises(ValueError, match=f"must return the loss with its graph.*{said}"):
        SharpnessAware(torch.optim.SGD(model.parameters(), lr=0.1), rho=0.1).step(loss)
