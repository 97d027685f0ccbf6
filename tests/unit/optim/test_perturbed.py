"""Perturbed OPT: each line of Algorithm 1 on steps computed by hand, the control of equal norm."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from common.optim import IsotropicOpt, PerturbationRule, PerturbedOpt

SLOPES = (0.05, 0.5)
RATE = 0.1


def rule(
    weights: torch.Tensor,
    *,
    kind: type[PerturbedOpt] = PerturbedOpt,
    rate: float = RATE,
    steps_per_epoch: int = 2,
    seed: int = 0,
    **constants: Any,
) -> PerturbedOpt:
    parameter = nn.Parameter(weights.clone())
    return kind(
        torch.optim.SGD([parameter], lr=rate),
        PerturbationRule(**{"eta": 1.0, **constants}),
        steps_per_epoch=steps_per_epoch,
        generator=torch.Generator().manual_seed(seed),
    )


def linear(weights: torch.Tensor) -> torch.Tensor:
    """A loss whose gradient is (0.05, 0.5) wherever it is taken."""
    return (torch.tensor(SLOPES, dtype=weights.dtype) * weights).sum()


def by_hand(t: int, coordinate: int, weight: float, *, eta: float, gamma: float = 0.1, beta1: float = 0.999) -> float:
    """min(1/(log(1 + epoch) √(η (h + ρ κ))), κ) of the first coordinate before step t of a linear loss."""
    slope, epoch = SLOPES[coordinate], 1 + t // 2
    h, earlier = ((1 - beta1**k) * slope**2 for k in (t, t - 1))  # an average of equal numbers that starts from 0
    rho = (h - earlier) / (RATE * math.hypot(*SLOPES))
    kappa = gamma / math.log(1 + epoch) * abs(weight) + 1e-5
    return min(1 / (math.log(1 + epoch) * math.sqrt(eta * (h + rho * kappa))), kappa)


@pytest.mark.parametrize("kind", [PerturbedOpt, IsotropicOpt])
def test_running_statistics_are_those_of_the_unperturbed_weights_where_the_model_is_given(
    kind: type[PerturbedOpt],
) -> None:
    torch.manual_seed(0)
    model, inputs = nn.BatchNorm1d(3), 5 + torch.randn(16, 3)
    ours = kind(
        torch.optim.SGD(model.parameters(), lr=0.0),
        PerturbationRule(eta=1.0),
        steps_per_epoch=2,
        generator=torch.Generator().manual_seed(0),
        model=model,
    )
    for _ in range(4):
        ours.step(lambda: model(inputs).square().mean())
    alone = nn.BatchNorm1d(3)
    for _ in range(4):
        alone(inputs)
    assert int(model.num_batches_tracked) == 4
    torch.testing.assert_close(model.running_mean, alone.running_mean)
    torch.testing.assert_close(model.running_var, alone.running_var)
    assert ours.gradient_evaluations == pytest.approx(4 * 4 / 3)


@pytest.mark.parametrize("eta", [1.0, 1e9])
def test_the_levels_of_each_step_are_those_computed_by_hand_with_everything_one_step_behind(eta: float) -> None:
    ours = rule(torch.tensor([1.0, -2.0], dtype=torch.float64), eta=eta)
    (weights,) = ours.parameters
    assert ours.levels().sigma.tolist() == [0.0, 0.0]
    for t in range(1, 6):
        ours.step(lambda: linear(weights))
        found = ours.levels()
        expected = by_hand(t, 0, 1.0 - RATE * SLOPES[0] * t, eta=eta)
        assert ours.epoch == 1 + t // 2
        assert float(found.sigma[0]) == pytest.approx(expected, rel=1e-9)
        assert found.curvature_share == (0.5 if eta == 1e9 else 0.0)


def test_only_weights_whose_last_gradient_was_below_the_gate_are_perturbed() -> None:
    ours = rule(torch.tensor([1.0, -2.0], dtype=torch.float64))
    (weights,) = ours.parameters
    ours.step(lambda: linear(weights))
    assert ours.levels().open.tolist() == [True, False]
    assert float(ours.levels().sigma[1]) == 0
    assert ours.levels().open_share == 0.5
    wide = rule(weights.detach(), beta2=0.5)
    wide.step(lambda: linear(wide.parameters[0]))
    assert wide.levels().open.tolist() == [True, False]  # |g| = β₂ is not below it


def test_the_first_step_takes_the_gradient_at_the_weights_and_later_ones_within_the_levels() -> None:
    start = torch.linspace(0.01, 0.09, 50, dtype=torch.float64)
    ours = rule(start, steps_per_epoch=10)
    (weights,) = ours.parameters
    for t in range(4):
        before, sigma = weights.detach().clone(), ours.levels().sigma
        ours.step(lambda: 0.5 * weights.square().sum())
        gradient = weights.grad
        assert gradient is not None
        assert bool(((gradient - before).abs() <= sigma + 1e-15).all())
        assert bool((gradient == before).all()) is (t == 0)
        assert torch.allclose(weights.detach(), before - RATE * gradient, rtol=0, atol=1e-16)  # OPT starts from w


def test_perturbations_are_uniform_between_minus_and_plus_the_level() -> None:
    start = torch.full((20_000,), 0.05, dtype=torch.float64)
    ours = rule(start, steps_per_epoch=10)
    (weights,) = ours.parameters
    ours.step(lambda: 0.5 * weights.square().sum())
    before, sigma = weights.detach().clone(), ours.levels().sigma
    ours.step(lambda: 0.5 * weights.square().sum())
    assert weights.grad is not None
    share = (weights.grad - before) / sigma
    assert abs(float(share.mean())) < 4 / math.sqrt(3 * 20_000)
    assert float(share.square().mean()) == pytest.approx(1 / 3, abs=4 * math.sqrt(4 / 45 / 20_000))
    assert float(share.abs().max()) > 0.99


def test_weights_that_did_not_move_while_the_average_did_are_not_perturbed() -> None:
    ours = rule(torch.ones(2, dtype=torch.float64), rate=0.0)
    ours.step(lambda: linear(ours.parameters[0]))
    assert ours.levels().sigma.tolist() == [0.0, 0.0]


def test_weights_without_curvature_are_perturbed_as_far_as_the_neighbourhood_goes() -> None:
    ours = rule(torch.ones(2, dtype=torch.float64), gamma=0.3)
    (weights,) = ours.parameters
    ours.step(lambda: 0.0 * weights.sum())
    assert ours.levels().sigma.tolist() == pytest.approx([0.3 / math.log(2) + 1e-5] * 2)


@pytest.mark.parametrize("kind", [PerturbedOpt, IsotropicOpt])
def test_the_control_has_the_norm_of_algorithm_1_and_the_same_size_in_every_coordinate(
    kind: type[PerturbedOpt],
) -> None:
    start = torch.cat([torch.full((5_000,), 0.09), torch.full((5_000,), 0.001)]).double()
    ours = rule(start, kind=kind, steps_per_epoch=10)
    (weights,) = ours.parameters
    ours.step(lambda: 0.5 * weights.square().sum())
    before, sigma, source = weights.detach().clone(), ours.levels().sigma, torch.Generator()
    source.set_state(ours.generator.get_state())
    of_algorithm_1 = (2 * torch.rand(10_000, generator=source).double() - 1) * sigma
    ours.step(lambda: 0.5 * weights.square().sum())
    assert weights.grad is not None
    found = weights.grad - before
    assert float(found.norm()) == pytest.approx(float(of_algorithm_1.norm()), rel=1e-6)
    large, small = (float(part.norm()) for part in found.split(5_000))
    assert large / small == pytest.approx(1, rel=0.08) if kind is IsotropicOpt else large / small > 20


@pytest.mark.parametrize(
    "wrong",
    [{"eta": 0.0}, {"epsilon": 0.0}, {"gamma": -1.0}, {"beta1": 1.0}, {"beta2": -0.1}, {"steps_per_epoch": 0}],
)
def test_constants_out_of_their_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="steps_per_epoch" if "steps_per_epoch" in wrong else "eta and epsilon"):
        rule(torch.ones(2), **wrong)
