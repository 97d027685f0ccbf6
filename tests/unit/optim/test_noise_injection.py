"""Noise injection against theory: quadratics, variances, stationary points, running statistics."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from common.optim import (
    EqualGradientNoise,
    GaussianNoise,
    GradientRule,
    NoiseStability,
    PlainGradient,
    SharpnessAware,
    WeightPerturbation,
)

Loss = Callable[[torch.Tensor], torch.Tensor]
POINT = (0.4, -0.3)


def parameter(*values: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=torch.float64))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rule_of(kind: type, weight: nn.Parameter, sigma: float, seed: int = 0, **settings: object) -> GradientRule:
    noise = GaussianNoise([weight], scale=sigma, generators=generator(seed))
    return kind(torch.optim.SGD([weight], lr=0.1), noise, **settings)


def draws(kind: type, values: tuple[float, ...], loss: Loss, sigma: float, count: int = 4000, **settings: object):
    """Gradients [count, coordinates] with independent noise: rows of one parameter, whose losses are summed."""
    weight = nn.Parameter(torch.tensor(values, dtype=torch.float64).expand(count, -1).clone())
    rule_of(kind, weight, sigma, **settings).fill(lambda: loss(weight))
    return weight.grad


def quartic() -> tuple[Loss, tuple[torch.Tensor, ...]]:
    """L = Σ a w²/2 + b w³/6 + c w⁴/24 with known derivatives of all orders."""
    a, b, c = (torch.tensor(values, dtype=torch.float64) for values in ((2.0, 1.0), (3.0, -2.0), (4.0, 6.0)))
    return lambda w: (a * w**2 / 2 + b * w**3 / 6 + c * w**4 / 24).sum(), (a, b, c)


def test_noise_of_equal_length_updates_the_running_statistics_once_a_step_and_bears_a_scale_of_zero() -> None:
    model, inputs = nn.BatchNorm1d(3), torch.randn(16, 3)
    noise = GaussianNoise(list(model.parameters()), scale=0.0, generators=generator())
    rule = EqualGradientNoise(torch.optim.SGD(model.parameters(), lr=0.1), noise, model=model)
    for _ in range(3):
        rule.step(lambda: model(inputs).square().mean())
    assert int(model.num_batches_tracked) == 3
    assert rule.gradient_evaluations == 9
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


def test_on_a_quadratic_the_two_sided_gradient_is_exact_and_the_one_sided_is_not() -> None:
    matrix = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    values = (0.7, -1.1)

    def loss(weight: torch.Tensor) -> torch.Tensor:
        return ((weight @ matrix) * weight).sum() / 2

    exact = matrix @ torch.tensor(values, dtype=torch.float64)
    two_sided = draws(NoiseStability, values, loss, 0.5, count=50)
    one_sided = draws(WeightPerturbation, values, loss, 0.5, count=50)
    assert float((two_sided - exact).abs().max()) < 1e-14
    assert float((one_sided - exact).abs().max()) > 0.1


@pytest.mark.parametrize("kind", [NoiseStability, WeightPerturbation])
def test_the_mean_is_the_gradient_of_the_loss_plus_half_sigma_squared_times_the_trace(kind: type) -> None:
    loss, (a, b, c) = quartic()
    sigma, w = 0.3, torch.tensor(POINT, dtype=torch.float64)
    theory = a * w + b * w**2 / 2 + c * w**3 / 6 + sigma**2 / 2 * (b + c * w)  # exact for a quartic
    sample = draws(kind, POINT, loss, sigma, count=20_000)
    errors = sample.std(0) / math.sqrt(len(sample))
    assert float(((sample.mean(0) - theory) / errors).abs().max()) < 4.5


@pytest.mark.parametrize(("kind", "power"), [(NoiseStability, 4), (WeightPerturbation, 2)])
def test_the_variance_falls_as_the_fourth_power_of_sigma_on_two_sides_and_as_the_square_on_one(
    kind: type, power: int
) -> None:
    loss, (a, b, c) = quartic()
    small, large = (float(draws(kind, POINT, loss, sigma, count=40_000).var(0).sum()) for sigma in (0.01, 0.04))
    assert math.log(large / small, 4) == pytest.approx(power, abs=0.03)
    w = torch.tensor(POINT, dtype=torch.float64)
    second, third = a + b * w + c * w**2 / 2, b + c * w
    leading = {2: second.square().sum() * 0.01**2, 4: (third / 2).square().sum() * 2 * 0.01**4}
    assert small == pytest.approx(float(leading[power]), rel=0.05)


@pytest.mark.parametrize("kind", [NoiseStability, WeightPerturbation])
def test_on_a_cubic_training_stops_where_the_regularised_loss_is_stationary(kind: type) -> None:
    """L = a w²/2 + b w³/6: E L(w + U) adds σ² (a + b w)/2, stationary where a w + b w²/2 + σ² b/2 = 0."""
    a, b, sigma = 1.0, 0.6, 0.8
    expected = (-a + math.sqrt(a * a - b * b * sigma**2)) / b
    weight = nn.Parameter(torch.zeros(4000, dtype=torch.float64))  # as many independent trainings
    optimiser = torch.optim.SGD([weight], lr=0.05)
    rule = kind(optimiser, GaussianNoise([weight], scale=sigma, generators=generator()), draws=4)
    for step in range(400):
        optimiser.param_groups[0]["lr"] = 0.3 / (1 + step / 10)
        rule.step(lambda: (a * weight**2 / 2 + b * weight**3 / 6).sum())
    ends = weight.detach()
    assert abs(float(ends.mean()) - expected) < 4.5 * float(ends.std()) / math.sqrt(len(ends)) + 0.003
    assert expected < -0.15  # far from the minimum of L itself, which is 0


def test_more_draws_divide_the_variance_and_cost_more() -> None:
    loss, _ = quartic()
    one = draws(NoiseStability, POINT, loss, 0.1, count=20_000).var(0).sum()
    four = draws(NoiseStability, POINT, loss, 0.1, count=20_000, draws=4).var(0).sum()
    assert float(one / four) == pytest.approx(4, rel=0.06)


def test_a_share_of_the_plain_gradient_is_mixed_in() -> None:
    loss, _ = quartic()
    noisy = draws(NoiseStability, POINT, loss, 0.5, count=1)
    mixed = draws(NoiseStability, POINT, loss, 0.5, count=1, clean_weight=0.25)
    weight = parameter(*POINT)
    PlainGradient(torch.optim.SGD([weight], lr=0.1)).fill(lambda: loss(weight))
    torch.testing.assert_close(mixed[0], 0.25 * weight.grad + 0.75 * noisy[0])


@pytest.mark.parametrize("members", [False, True])
def test_sharpness_aware_gradient_is_that_at_the_end_of_the_ascent_of_all_or_of_each_member(members: bool) -> None:
    """A member whose gradient vanishes stays."""
    weight = nn.Parameter(torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64)[: 1 + members])
    SharpnessAware(torch.optim.SGD([weight], lr=0.1), rho=0.5, members=members).fill(lambda: weight.square().sum() / 2)
    torch.testing.assert_close(weight.grad, 1.1 * weight.detach())


def test_a_members_noise_does_not_depend_on_who_is_drawn_with_it() -> None:
    shapes = ((2, 3, 4), (2, 5))
    both = GaussianNoise([torch.zeros(s) for s in shapes], scale=2.0, generators=[generator(1), generator(2)])
    alone = GaussianNoise([torch.zeros(1, *s[1:]) for s in shapes], scale=2.0, generators=[generator(2)])
    for _ in range(3):
        for one, two in zip(alone.draw(), both.draw(), strict=True):
            assert torch.equal(one[0], two[1])


@pytest.mark.parametrize("clean_weight", [0.0, 0.5])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_see_the_unperturbed_weights_once_a_step(
    clean_weight: float, momentum: float | None
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=momentum), nn.Linear(4, 1)).double()
    plain = copy.deepcopy(model)
    inputs = torch.randn(16, 3, dtype=torch.float64)
    noise = GaussianNoise(list(model.parameters()), scale=0.5, generators=generator())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.0)
    rule = NoiseStability(optimiser, noise, draws=2, clean_weight=clean_weight, model=model)
    for _ in range(2):
        rule.step(lambda: model(inputs).square().mean())
        plain(inputs)
    for mine, its in zip(model[1].buffers(), plain[1].buffers(), strict=True):
        torch.testing.assert_close(mine, its, rtol=0, atol=1e-12)


def test_settings_without_meaning_are_refused() -> None:
    weight, other = parameter(1.0), parameter(1.0)
    optimiser = torch.optim.SGD([weight], lr=0.1)
    for says, make in {
        "of the optimiser's parameters": lambda: NoiseStability(
            optimiser, GaussianNoise([other], scale=0.1, generators=generator())
        ),
        "draws": lambda: rule_of(NoiseStability, weight, 0.1, draws=0),
        "scale": lambda: GaussianNoise([weight], scale=-1.0, generators=generator()),
        "members": lambda: GaussianNoise([weight], scale=1.0, generators=[generator(), generator()]),
        "rho": lambda: SharpnessAware(optimiser, rho=-1.0),
    }.items():
        with pytest.raises(ValueError, match=says):
            make()


def test_gradient_noise_of_equal_size_is_as_far_from_the_gradient_as_noise_injection_in_any_direction() -> None:
    def gradients(kind: type, count: int) -> torch.Tensor:
        weights = [nn.Parameter(torch.tensor(POINT).expand(count, 2).clone()) for _ in range(2)]
        noise = GaussianNoise(weights, scale=0.3, generators=[generator(seed) for seed in range(count)])
        rule = kind(torch.optim.SGD(weights, lr=0.1), noise)
        rule.fill(lambda: sum((weight**4).sum() for weight in weights))
        assert rule.gradient_evaluations == (3 if kind is EqualGradientNoise else 2)
        return torch.cat([weight.grad for weight in weights], dim=1)

    plain = 4 * torch.tensor(2 * POINT) ** 3
    injected, control = (gradients(kind, 400) - plain for kind in (NoiseStability, EqualGradientNoise))
    torch.testing.assert_close(control.norm(dim=1), injected.norm(dim=1))
    shares = control.square().mean(0) / control.square().sum(1).mean()
    assert shares.tolist() == pytest.approx([0.25] * 4, abs=0.08)
    assert float((control.mean(0) / control.std(0)).abs().max()) < 4.5 / 20
