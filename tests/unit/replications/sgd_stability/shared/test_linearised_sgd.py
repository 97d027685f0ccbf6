"""Linearised SGD against averages over every batch and the printed recursion."""

import itertools

import pytest
import torch
from torch import nn

from common.training import FullyConnectedEnsemble
from replications.sgd_stability.shared.layered_hessians import LayeredHessians, criterion_ratio
from replications.sgd_stability.shared.linearised_sgd import LinearisedSGD, alignment, expected_losses
from tests.unit.replications.sgd_stability.samples import generator, regression


def linearised(batch_size: int, rate: float = 0.3) -> tuple[LinearisedSGD, torch.Tensor, torch.Tensor]:
    source = generator(5)
    jacobian = torch.randn(6, 9, generator=source, dtype=torch.float64) / 3
    return (
        LinearisedSGD(jacobian @ jacobian.mT, rate, batch_size),
        jacobian,
        torch.randn(1, 6, generator=source).double(),
    )


@pytest.mark.parametrize("batch_size", [1, 2, 5, 6])
def test_step_averages_are_those_over_every_batch(batch_size: int):
    sgd, jacobian, errors = linearised(batch_size)
    batches = torch.tensor(list(itertools.combinations(range(6), batch_size)))
    after = sgd.step(errors.expand(len(batches), -1), batches)
    found = sgd.averages(errors)
    expected = after.square().sum(1).mean() / errors.square().sum()
    assert found.ratio.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = errors[0][:, None] * jacobian
    curvature = jacobian.mT @ jacobian / 6
    noise = gradients.mT @ gradients / 6 - gradients.mean(0)[:, None] * gradients.mean(0)
    mu = (noise * curvature).sum() / (errors.square().mean() * curvature.square().sum())
    assert found.mu.item() == pytest.approx(mu.item(), rel=1e-12)
    gamma = 0.3**2 * sgd.noise_scale * mu.item() * sgd.hessian_norm**2
    assert found.noise.item() == pytest.approx(gamma, rel=1e-12, abs=1e-14)
    assert found.ratio.item() >= gamma


def test_a_linearised_step_is_a_step_of_a_linear_network():
    model, inputs, targets = regression((9, 1), 6)
    ensemble = FullyConnectedEnsemble((9, 1), nn.utils.parameters_to_vector(model.parameters()).detach()[None].clone())
    sgd = LinearisedSGD(LayeredHessians(model, inputs, targets).kernel(), 0.05, 2)
    errors = (model(inputs) - targets).detach().mT
    chosen = torch.tensor([[4, 1]])
    ensemble.sgd_step(inputs[chosen], targets[chosen], torch.tensor([0.05], dtype=torch.float64))
    after = (ensemble.outputs(inputs)[0] - targets).mT
    torch.testing.assert_close(sgd.step(errors, chosen), after, rtol=0, atol=1e-12)
    hessian = 2 / 6 * torch.linalg.eigvalsh(sgd.kernel)
    assert sgd.hessian_norm == pytest.approx(float(hessian.norm()))


def test_a_minimum_that_breaks_the_full_criterion_may_be_stable():
    kernel = torch.tensor([[1, 0.5], [0.5, 0.5]], dtype=torch.float64)  # two examples
    sgd = LinearisedSGD(kernel, 1.1, 1)
    criterion = criterion_ratio(kernel, 1, learning_rate=1.1, batch_size=1, generator=generator(0), relative_error=1e-6)
    assert criterion.value == pytest.approx(1.1)
    assert sgd.radius() < 0.95
    losses = expected_losses(sgd, torch.tensor([1, 0.1], dtype=torch.float64), 200)
    assert losses[1] > losses[0] > 1e4 * losses[-1]


def test_radius_is_the_spectral_radius_of_the_second_moment_and_is_above_one_where_the_criterion_of_one_step_is_far():
    sgd, _, _ = linearised(2, rate=0.5)
    batches = list(itertools.combinations(range(6), 2))
    identity = torch.eye(6, dtype=torch.float64)
    moment = torch.zeros(36, 36, dtype=torch.float64)
    for batch in batches:
        matrix = sgd.step(identity, torch.tensor([batch] * 6)).mT
        moment += torch.kron(matrix, matrix) / len(batches)
    expected = float(torch.linalg.eigvals(moment).abs().max())
    assert sgd.radius(3000) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("rate", "batch_size"), [(0.05, 1), (0.1, 4), (0.3, 16)])
def test_the_radius_is_that_of_the_printed_recursion_to_rounding_over_all_iterations(rate: float, batch_size: int):
    examples = torch.randn(20, 30, generator=generator(), dtype=torch.float64)
    kernel = examples @ examples.mT
    sgd = LinearisedSGD(kernel, rate, batch_size)
    contraction = torch.eye(20, dtype=torch.float64) - 2 * rate * kernel / 20
    moment, growth = torch.eye(20, dtype=torch.float64), 1.0
    for _ in range(400):
        inner = moment.diagonal().diag() / 20 - moment / 400
        moment = contraction @ moment @ contraction + 4 * rate**2 * sgd.noise_scale * (kernel @ inner @ kernel)
        growth = float(moment.trace())
        moment = moment / growth
    assert sgd.radius() == pytest.approx(growth, rel=1e-12)


def test_the_decoupled_sum_is_infinite_beyond_the_edge():
    kernel = torch.diag(torch.tensor([3.0, 1.0], dtype=torch.float64))
    assert LinearisedSGD(kernel, 0.2, 1).decoupled_sum() == pytest.approx(0.6 / 1.4 + 0.2 / 1.8)
    assert LinearisedSGD(kernel, 0.7, 1).decoupled_sum() == float("inf")


def test_mu_zero_is_the_least_alignment_along_the_trajectory():
    sgd, _, errors = linearised(2)
    batches = torch.tensor([[0, 3], [5, 1], [2, 4], [3, 1]])
    seen, now = [], errors
    for batch in batches:
        now = sgd.step(now, batch[None])
        seen.append(float(alignment(now, sgd.kernel)))
    assert sgd.smallest_alignment(errors[0], batches) == pytest.approx(min(seen), rel=1e-9)


@pytest.mark.parametrize("batch_size", [1, 2, 6])
def test_expected_losses_are_averages_over_every_sequence_of_batches_and_grow_by_the_radius(batch_size: int):
    sgd, _, errors = linearised(batch_size, rate=0.5)
    batches = torch.tensor(list(itertools.combinations(range(6), batch_size)))
    found, states = expected_losses(sgd, errors[0], 3), errors
    for step in range(4):
        assert found[step] == pytest.approx(float(states.square().mean()), rel=1e-12)
        chosen = batches.repeat(len(states), 1)
        states = sgd.step(states.repeat_interleave(len(batches), 0), chosen)
    long = expected_losses(sgd, errors[0], 3000)
    assert long[-1] / long[-2] == pytest.approx(sgd.radius(3000), rel=1e-6)
