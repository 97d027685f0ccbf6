import math

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

from common.hessian import (
    NoiseCovariance,
    Problem,
    SampleHessians,
    alignment,
    epsilon_sharpness,
    hessian_lipschitz,
    kink_term,
    noise_along_curvature,
    noise_norm,
    noise_stability,
    noise_trace,
    non_uniformity,
    per_sample_gradient_norms,
    sharpness,
    sharpness_from_perturbations,
    squared_norm_from_perturbations,
    stability_factor,
    trace,
    trace_from_perturbations,
)
from common.hessian.ascent import maximise
from tests.unit.hessian.networks import data_of, kinks_of_two_layers


def covariance(gradients: torch.Tensor) -> torch.Tensor:
    centred = gradients - gradients.mean(0)
    return centred.T @ centred / len(gradients)


def test_gradient_norms_noise_and_alignment_are_those_of_the_dense_matrices(case):
    problem, matrices = case
    norms = matrices.gradients.norm(dim=1)
    torch.testing.assert_close(per_sample_gradient_norms(problem), norms, rtol=1e-9, atol=1e-12)
    noise, curvature = covariance(matrices.gradients), matrices.ggn
    assert noise_trace(problem).value == pytest.approx(float(noise.trace()), rel=1e-9)
    found = alignment(problem)
    cross = float((noise @ curvature).trace())
    assert found.noise_trace == pytest.approx(float(noise.trace()), rel=1e-8)
    assert found.noise_norm == pytest.approx(float(noise.norm()), rel=1e-8)
    assert found.noise_curvature == pytest.approx(cross, rel=1e-8)
    assert found.mu == pytest.approx(cross / (2 * problem.loss() * float(curvature.square().sum())), rel=1e-8)
    assert found.mu == pytest.approx(found.alpha * found.beta, rel=1e-12)
    assert found.gamma is None


def test_drawn_noise_measures_lie_within_their_error_bars(case):
    problem, matrices = case
    noise, curvature = covariance(matrices.gradients), matrices.ggn
    norm = noise_norm(problem, relative_error=0.05, budget=400, seed=1)
    assert abs(norm.value - float(noise.norm())) < 5 * norm.standard_error
    cross = noise_along_curvature(problem, relative_error=0.05, budget=400, seed=1)
    assert abs(cross.value - float((noise @ curvature).trace())) < 5 * cross.standard_error


def scalar() -> tuple[Problem, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(30, 4).double(), torch.randn(30, 1).double()
    return Problem(nn.Linear(4, 1, bias=False).double(), nn.MSELoss(), (x, y), chunk=7), x, y


def test_gamma_of_linear_regression_is_that_of_the_closed_form():
    problem, x, _ = scalar()
    gram = x.T @ x / len(x)
    norms = (x @ gram * x).sum(1)
    assert alignment(problem).gamma == pytest.approx(float(norms.min() / norms.mean()))


def test_alignment_does_not_depend_on_a_factor_before_the_loss():
    problem, x, y = scalar()
    half = Problem(problem.model, lambda o, t: ((o - t) ** 2).mean() / 2, (x, y))
    one, other = alignment(problem), alignment(half)
    for name in ("mu", "alpha", "beta", "gamma"):
        assert getattr(one, name) == pytest.approx(getattr(other, name))


def test_noise_of_a_sum_loss_and_alignment_at_zero_loss_are_refused():
    x, y = torch.ones(3, 2), torch.zeros(3, 1)
    total = Problem(nn.Linear(2, 1), nn.MSELoss(reduction="sum"), (x, y))
    for function in (noise_trace, NoiseCovariance, alignment, SampleHessians, noise_along_curvature):
        with pytest.raises(ValueError, match="sum"):
            function(total)
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    with pytest.raises(ValueError, match="0/0"):
        alignment(Problem(model, nn.MSELoss(), (x, y)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_of_equal_examples_is_zero_within_the_rounding_that_is_stated(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).to(dtype)
    equal = torch.randn(1, 4, dtype=dtype).repeat(50, 1), torch.ones(50, 1, dtype=dtype)
    problem = Problem(model, nn.MSELoss(), equal)
    s, total = non_uniformity(problem), noise_trace(problem)
    assert s.value <= s.bound
    assert not s.converged
    assert "rounding" in s.reason
    assert 0 <= total.value <= total.bound


def test_the_budget_holds_where_graphs_are_not_kept(tanh):
    for function, budget in ((noise_along_curvature, 60), (noise_norm, 60)):
        found = function(tanh[0], relative_error=1e-6, budget=budget, memory_limit=0)
        assert not found.converged
        assert 0.7 * budget < found.cost < 1.2 * budget


def test_the_box_of_a_network_smaller_than_the_random_space_holds_its_weights():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    problem = Problem(model, nn.MSELoss(), (torch.randn(20, 4).double(), torch.randn(20, 1).double()))
    found = [epsilon_sharpness(problem, dimensions=100, seed=seed).value for seed in range(4)]
    assert max(found) < 2 * min(found)


@pytest.mark.parametrize("measured", [trace_from_perturbations, squared_norm_from_perturbations, epsilon_sharpness])
def test_perturbations_of_no_size_are_refused(tanh, measured):
    for size in (0.0, -1.0):
        with pytest.raises(ValueError, match="must be positive"):
            measured(tanh[0], size)


def test_moments_of_the_hessians_of_examples_are_those_of_dense_ones(case):
    problem, matrices = case
    vector = torch.randn(problem.size, generator=torch.Generator().manual_seed(0)).double()
    first, second = SampleHessians(problem).moments(vector)
    torch.testing.assert_close(first, matrices.hessian @ vector, rtol=1e-8, atol=1e-10)
    expected = (matrices.hessians @ (matrices.hessians @ vector)[:, :, None]).squeeze(2).mean(0)
    torch.testing.assert_close(second, expected, rtol=1e-8, atol=1e-9)


def test_non_uniformity_and_stability_factor_are_the_largest_eigenvalues(tanh):
    problem, matrices = tanh
    mean = matrices.hessian
    spread = (matrices.hessians @ matrices.hessians).mean(0) - mean @ mean
    s = non_uniformity(problem, relative_error=1e-4)
    assert s.value == pytest.approx(float(torch.linalg.eigvalsh(spread)[-1]) ** 0.5, rel=1e-4)
    eta, batch, count = 0.7, 3, problem.count
    step = torch.eye(problem.size).double() - eta * mean
    exact = torch.linalg.eigvalsh(step @ step + eta**2 * (count - batch) / (batch * (count - 1)) * spread)[-1]
    assert stability_factor(problem, eta, batch, relative_error=1e-5).value == pytest.approx(float(exact), rel=1e-4)
    full = stability_factor(problem, eta, count, relative_error=1e-5).value
    assert full == pytest.approx(float(torch.linalg.eigvalsh(step @ step)[-1]), rel=1e-4)
    with pytest.raises(ValueError, match="batch size"):
        stability_factor(problem, eta, count + 1)


def test_loss_under_noise_on_a_smooth_network_is_what_the_trace_predicts(tanh):
    found = noise_stability(tanh[0], 0.01, relative_error=0.03, budget=1500)
    assert found.kinks is None
    error = math.hypot(found.change.standard_error, found.curvature.standard_error)
    assert abs(found.change.value - found.predicted) < 4.5 * error + 0.01 * abs(found.predicted)


def two_layers() -> Problem:
    torch.manual_seed(1)
    x = torch.randn(40, 3).double()
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)).double()
    return Problem(model, nn.CrossEntropyLoss(), (x, torch.randint(0, 2, (40,))), chunk=16)


def test_kink_term_of_a_two_layer_network_is_that_of_the_closed_form():
    problem = two_layers()
    exact = kinks_of_two_layers(problem, 0.05)
    found = kink_term(problem, 0.05, relative_error=0.08, budget=2000)
    assert abs(found.value - exact) < 4.5 * found.standard_error
    assert found.standard_error < 0.1 * abs(exact)


def test_relu_network_needs_the_kink_term():
    problem = two_layers()
    # every loss falls with its logit, so that the excess of the units does not cancel
    with torch.no_grad():
        problem.model[2].weight[0].abs_()
        problem.model[2].weight[1].abs_().neg_()
    inputs, targets = data_of(problem)
    biased = Problem(problem.model, problem.loss_function, (inputs, torch.ones_like(targets)))
    found = noise_stability(biased, 0.02, relative_error=0.03, budget=3000)
    assert found.kinks is not None
    error = math.hypot(found.change.standard_error, found.kinks.standard_error)
    assert abs(found.change.value - found.predicted) < 4.5 * error + 0.05 * abs(found.predicted)
    assert abs(found.change.value - found.curvature.value) > 10 * error


class Hidden(nn.Module):
    """Two linear layers with an activation by function between them."""

    def __init__(self, activation) -> None:
        super().__init__()
        self.first, self.second, self.activation = nn.Linear(3, 6), nn.Linear(3, 2), activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.activation(self.first(x)))


def of_pairs(activation) -> Problem:
    torch.manual_seed(1)
    model = Hidden(activation).double()
    return Problem(model, nn.CrossEntropyLoss(), (torch.randn(20, 3).double(), torch.randint(0, 2, (20,))), chunk=8)


def otherwise_without_gradients(z: torch.Tensor) -> torch.Tensor:
    if torch.is_grad_enabled():
        return functional.max_pool1d(z[:, None], 2)[:, 0]
    return z[:, 1::2] + (z[:, ::2] - z[:, 1::2]).abs().relu() / 2 + (z[:, ::2] - z[:, 1::2]) / 2


@pytest.mark.parametrize(
    "activation",
    [
        otherwise_without_gradients,
        lambda z: functional.max_pool1d(z[:, None], 2)[:, 0],
        lambda z: functional.adaptive_max_pool2d(z.view(-1, 1, 3, 2), (3, 1)).flatten(1),
        lambda z: z.view(-1, 3, 2).amax(2),
        lambda z: torch.maximum(z[:, ::2], z[:, 1::2]),
        lambda z: z[:, 1::2] + functional.relu_(z[:, ::2] - z[:, 1::2]),
        lambda z: z[:, 1::2] + (z[:, ::2] - z[:, 1::2]).clamp(min=0),
        lambda z: (z[:, ::2] + z[:, 1::2] + (z[:, ::2] - z[:, 1::2]).abs()) / 2,
        lambda z: z[:, ::2] + 2 * functional.leaky_relu(z[:, 1::2] - z[:, ::2], 0.5) - (z[:, 1::2] - z[:, ::2]),
    ],
)
def test_the_kink_term_is_that_of_the_function_however_it_is_written(activation):
    def by_module(z: torch.Tensor) -> torch.Tensor:
        return z[:, 1::2] + nn.ReLU()(z[:, ::2] - z[:, 1::2])

    options = {"relative_error": 1e-9, "budget": 20, "seed": 3}
    expected = kink_term(of_pairs(by_module), 0.1, **options).value
    assert expected != 0
    assert kink_term(of_pairs(activation), 0.1, **options).value == pytest.approx(expected, rel=1e-9)


def test_kinks_of_the_loss_count():
    torch.manual_seed(0)
    x, y = torch.randn(15, 2).double(), torch.randn(15, 1).double()
    problem = Problem(nn.Linear(2, 1).double(), lambda o, t: (o - t).abs().mean(), (x, y))
    found = noise_stability(problem, 0.1, relative_error=0.04, budget=4000)
    assert found.curvature.value == 0  # the loss is piecewise linear: kinks are all there is
    error = math.hypot(found.change.standard_error, found.kinks.standard_error)
    assert abs(found.change.value - found.predicted) < 4.5 * error
    assert found.change.value > 10 * error


def test_where_the_kink_term_is_not_known_the_rest_is_given_and_it_is_said_why():
    torch.manual_seed(0)
    x, y = torch.randn(6, 3), torch.zeros(6, dtype=torch.int64)
    with_index = lambda z: z.view(-1, 3, 2).max(2).values  # noqa: E731
    scaled, hard = nn.Sequential(nn.Linear(3, 3), nn.SELU()), nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Hardswish())
    for model in (Hidden(with_index), scaled, hard):
        problem = Problem(model, nn.CrossEntropyLoss(), (x, y))
        with pytest.raises(ValueError, match="kinks that are not known"):
            kink_term(problem, 0.1)
        found = noise_stability(problem, 0.1, relative_error=0.5, budget=50)
        assert found.kinks is None
        assert "kinks that are not known" in found.unavailable
        assert math.isnan(found.predicted)
        assert found.change.standard_error > 0
        assert found.curvature.value != 0
    smooth = noise_stability(
        Problem(nn.Sequential(nn.Linear(3, 3), nn.ELU()), nn.CrossEntropyLoss(), (x, y)), 0.1, budget=20
    )
    assert (smooth.kinks, smooth.unavailable) == (None, "")


def test_perturbation_identities_hold_at_a_minimum():
    problem, x, y = scalar()
    with torch.no_grad():
        problem.model.weight.copy_(torch.linalg.lstsq(x, y).solution.T)
    largest = sharpness(problem, relative_error=1e-6).estimate.value
    assert sharpness_from_perturbations(problem, 0.1).value == pytest.approx(largest, rel=1e-3)
    isotropic = trace_from_perturbations(problem, 0.1, relative_error=0.03)
    assert abs(isotropic.value - trace(problem).value) < 4.5 * isotropic.standard_error
    shaped = squared_norm_from_perturbations(problem, 0.1, relative_error=0.03)
    gram = 2 * x.T @ x / len(x)
    assert abs(shaped.value - float(gram.square().sum())) < 4.5 * shaped.standard_error


@pytest.mark.parametrize("slope", [0.0, 1e-38, 1e-20])
def test_ascent_ends_where_the_gradient_vanishes_in_single_precision(slope):
    ramp = lambda x: (slope * float(x), torch.full((1,), slope))  # noqa: E731
    found = maximise(ramp, torch.zeros(1), lambda x: x.clamp(-1, 1), 20)
    assert math.isfinite(found.value)
    assert torch.isfinite(found.point).all()
    assert found.converged or slope > 0
    assert found.converged == (found.status == "the projected gradient vanished")


def test_ascent_survives_a_gradient_that_vanishes_on_the_way():
    shelf = lambda x: (min(float(x), 0.5), (x < 0.5).float())  # noqa: E731
    found = maximise(shelf, torch.zeros(1), lambda x: x.clamp(-10, 10), 20)
    assert found.converged
    assert found.value == 0.5
    assert math.isfinite(float(found.point))


def test_epsilon_sharpness_finds_what_the_optimiser_of_the_paper_finds():
    from scipy.optimize import minimize

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    problem = Problem(model, nn.CrossEntropyLoss(), (torch.randn(20, 3).double(), torch.randint(0, 2, (20,))))
    at, here, epsilon = problem.vector(), problem.loss(), 0.2
    sides = (epsilon * (at.abs() + 1)).numpy()

    def fallen(step):
        with problem.at(at + torch.as_tensor(step)):
            return -problem.loss(), -problem.gradient().numpy()

    source = numpy.random.default_rng(0)
    starts = [sides * source.uniform(-0.1, 0.1, len(sides)) for _ in range(6)]
    bounds = list(zip(-sides, sides, strict=True))
    theirs = max(-minimize(fallen, s, jac=True, method="L-BFGS-B", bounds=bounds).fun for s in starts) - here
    found = [epsilon_sharpness(problem, epsilon, dimensions=None, iterations=60, seed=s) for s in range(6)]
    ours = max(found, key=lambda f: f.increase)
    assert ours.increase == pytest.approx(theirs, rel=1e-3)
    assert ours.value == pytest.approx(100 * ours.increase / (1 + here))
    assert ours.ascent.converged
    assert "gradient ascent" in str(ours)
    assert 0 < ours.ascent.iterations <= ours.ascent.evaluations
    ten = epsilon_sharpness(problem, epsilon, dimensions=None)  # as many iterations as in the paper
    assert 0.5 * theirs < ten.increase <= theirs * (1 + 1e-3)
    assert ten.ascent.converged or ten.ascent.status == "10 iterations"
    assert not epsilon_sharpness(problem, epsilon, dimensions=2, iterations=1).ascent.converged


def test_hessian_lipschitz_estimate_of_a_cubic_is_its_constant():
    class Cube(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.w**3

    x = torch.ones(3, 1).double()
    problem = Problem(Cube(), lambda o, t: o.mean(), (x, x))
    assert hessian_lipschitz(problem, 0.1).value == pytest.approx(6)
    assert problem.vector().item() == 1
