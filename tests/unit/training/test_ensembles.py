"""Ensembles of convolutional networks beside their members one by one, and the rules that move their rows."""

import contextlib

import pytest
import torch
from torch import nn
from torch.nn import functional

from common.models import MnistConvNet, initialise_uniform
from common.training import ConvolutionalEnsemble, Ensemble, HeavyBall, SquaredGradientAverage
from common.training.ensembles import Batch

KINDS = pytest.mark.parametrize(
    ("kind", "channels", "side"),
    [(Ensemble, 1, 28), *((ConvolutionalEnsemble, *picture) for picture in ((1, 28), (3, 32), (2, 16)))],
)


def networks(count: int, channels: int = 1, side: int = 28, dtype: torch.dtype = torch.float64) -> list[MnistConvNet]:
    members = []
    for seed in range(count):
        member = MnistConvNet(channels, side)
        initialise_uniform(member, torch.Generator().manual_seed(seed))
        members.append(member.to(dtype))
    return members


def batches(
    members: int, images: int, channels: int = 1, side: int = 28, dtype: torch.dtype = torch.float64, seed: int = 0
) -> list[Batch]:
    """Noise with an even background on one side, where maxima are equal as on MNIST."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(members, images, channels, side, side, generator=generator, dtype=dtype)
    inputs[..., : side // 2] = -0.4
    return list(zip(inputs, torch.randint(0, 10, (members, images), generator=generator), strict=True))


def assert_those_of_autograd(ensemble: Ensemble, step: list[Batch], losses: torch.Tensor) -> None:
    for index, (inputs, targets) in enumerate(step):
        member = ensemble.members[index]
        loss = functional.cross_entropy(member(inputs), targets)
        gradients = torch.autograd.grad(loss, list(member.parameters()))
        assert float(losses[index]) == pytest.approx(float(loss.detach()), abs=1e-12)
        torch.testing.assert_close(ensemble.gradients[index], ensemble.row(list(gradients)), rtol=0, atol=1e-12)


@KINDS
def test_losses_and_gradients_are_those_of_each_member_on_its_own_batch(kind: type[Ensemble], channels: int, side: int):
    ensemble, step = kind(networks(2, channels, side)), batches(2, 6, channels, side)
    assert_those_of_autograd(ensemble, step, ensemble.losses_and_gradients(step))


@KINDS
def test_twenty_steps_together_are_those_of_pytorch_alone_to_1e_10(kind: type[Ensemble], channels: int, side: int):
    ensemble, alone = kind(networks(3, channels, side)), networks(3, channels, side)
    optimiser = HeavyBall(ensemble.weights, learning_rate=0.05, momentum=0.5)
    optimisers = [torch.optim.SGD(member.parameters(), lr=0.05, momentum=0.5) for member in alone]
    for number in range(20):
        count = 3 if number % 5 == 4 else 6  # the last batch of an epoch is smaller
        step = batches(3, count, channels, side, seed=number)
        ensemble.losses_and_gradients(step)
        optimiser.step(ensemble.gradients)
        for member, its, (images, targets) in zip(alone, optimisers, step, strict=True):
            its.zero_grad()
            functional.cross_entropy(member(images), targets).backward()
            its.step()
    rows = torch.stack([ensemble.row([parameter.detach() for parameter in member.parameters()]) for member in alone])
    torch.testing.assert_close(ensemble.weights, rows, rtol=0, atol=1e-10)


def test_of_equal_maxima_the_first_takes_the_slope():
    ensemble, step = ConvolutionalEnsemble(networks(1)), batches(1, 4)
    with torch.no_grad():
        ensemble.members[0].convolution2.weight.zero_()  # every place of the second pooling is a tie
        ensemble.members[0].convolution2.bias.fill_(1.0)
    assert_those_of_autograd(ensemble, step, ensemble.losses_and_gradients(step))
    assert bool((ensemble.tensors(ensemble.gradients[0])[2] != 0).any())


def test_a_member_without_finite_weights_leaves_the_others_as_they_are():
    step = batches(3, 5, dtype=torch.float32)
    whole = ConvolutionalEnsemble(networks(3, dtype=torch.float32))
    losses = whole.losses_and_gradients(step)
    gradients = whole.gradients.clone()
    whole.weights[1] = torch.nan
    again = whole.losses_and_gradients(step)
    assert again.isfinite().tolist() == [True, False, True]
    assert torch.equal(again[[0, 2]], losses[[0, 2]])
    assert torch.equal(whole.gradients[[0, 2]], gradients[[0, 2]])
    whole.weights[1] = 0
    assert bool(whole.losses_and_gradients(step).isfinite().all())
    assert bool(whole.gradients.isfinite().all())


def test_weights_that_overflow_give_a_loss_that_is_not_finite():
    ensemble = ConvolutionalEnsemble(networks(1, dtype=torch.float32))
    ensemble.weights.mul_(1e38)
    assert not bool(ensemble.losses_and_gradients(batches(1, 4, dtype=torch.float32)).isfinite().all())


def test_members_keep_the_function_they_came_with_until_their_row_moves():
    members, images = networks(2), torch.randn(5, 1, 28, 28).double()
    before = [member(images).detach() for member in members]
    ensemble = Ensemble(members)
    torch.testing.assert_close(members[1](images).detach(), before[1])
    ensemble.weights[1] = 0
    assert bool((members[1](images) == 0).all())
    torch.testing.assert_close(members[0](images).detach(), before[0])


def test_row_and_tensors_are_inverse_and_tensors_are_views():
    ensemble = Ensemble(networks(1))
    shaped = [torch.randn(shape) for shape in ensemble.shapes]
    row = ensemble.row(shaped)
    assert all(torch.equal(a, b) for a, b in zip(ensemble.tensors(row), shaped, strict=True))
    ensemble.tensors(row)[0].zero_()
    assert int((row == 0).sum()) == shaped[0].numel()


def test_evaluation_averages_over_examples_not_over_chunks():
    ensemble = Ensemble(networks(2))
    images, targets = torch.randn(10, 1, 28, 28).double(), torch.arange(10)

    def uneven(member: int):
        yield images[:7], targets[:7]
        yield images[7:], targets[7:]

    result = ensemble.evaluate(uneven)
    logits = ensemble.members[1](images)
    assert float(result.loss[1]) == pytest.approx(float(functional.cross_entropy(logits, targets).detach()), rel=1e-5)
    assert float(result.error[1]) == pytest.approx(float((logits.argmax(1) != targets).double().mean()))


def test_weights_come_back_bit_for_bit_after_a_perturbation_even_if_it_fails():
    ensemble = Ensemble(networks(1))
    before = ensemble.weights.clone()
    with contextlib.suppress(RuntimeError), ensemble.at(before + 0.1):
        assert torch.equal(ensemble.weights, before + 0.1)
        raise RuntimeError("on purpose")
    assert torch.equal(ensemble.weights, before)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Ensemble([nn.Linear(2, 3), nn.Linear(3, 2)]), "same shapes"),
        (lambda: Ensemble([]), "at least one"),
        (
            lambda: ConvolutionalEnsemble(networks(2)).losses_and_gradients([*batches(1, 4), *batches(1, 3)]),
            "all of one size",
        ),
        (lambda: ConvolutionalEnsemble(networks(2)).losses_and_gradients(batches(1, 4)), "one batch a member"),
        (lambda: SquaredGradientAverage(torch.zeros(1, 2), beta=0.9).corrected(), "update it first"),
    ],
)
def test_unlike_members_batches_of_different_sizes_and_empty_averages_are_refused(call, says: str):
    with pytest.raises(ValueError, match=says):
        call()


def test_average_of_squares_is_adams_second_moment_and_its_correction():
    average = SquaredGradientAverage(torch.zeros(1, 2), beta=0.9)
    for _ in range(3):
        average.update(torch.tensor([[2.0, -1.0]]))
    torch.testing.assert_close(average.average, (1 - 0.9**3) * torch.tensor([[4.0, 1.0]]))
    torch.testing.assert_close(average.corrected(), torch.tensor([[4.0, 1.0]]))


def test_states_restore_to_the_same_next_step():
    gradients = [torch.randn(2, 3, generator=torch.Generator().manual_seed(k)) for k in range(4)]

    def rules(weights: torch.Tensor) -> tuple[HeavyBall, SquaredGradientAverage]:
        return HeavyBall(weights, learning_rate=0.1, momentum=0.9), SquaredGradientAverage(weights, beta=0.9)

    def advance(both: tuple[HeavyBall, SquaredGradientAverage], part: list[torch.Tensor]) -> None:
        for gradient in part:
            both[0].step(gradient)
            both[1].update(gradient)

    straight, broken = torch.ones(2, 3), torch.ones(2, 3)
    through, first, second = rules(straight), rules(broken), rules(broken)
    advance(through, gradients)
    advance(first, gradients[:2])
    for new, old in zip(second, first, strict=True):
        new.restore(old.state())
    advance(second, gradients[2:])
    assert torch.equal(straight, broken)
    assert torch.equal(through[1].corrected(), second[1].corrected())
