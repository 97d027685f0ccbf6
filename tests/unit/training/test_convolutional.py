import pytest
import torch
from torch.nn import functional

from common.models import MnistConvNet, initialise_uniform
from common.training import ConvolutionalEnsemble, Ensemble, HeavyBall

PICTURES = pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (2, 16)])


def networks(count: int, channels: int = 1, side: int = 28, dtype: torch.dtype = torch.float64) -> list[MnistConvNet]:
    members = []
    for seed in range(count):
        member = MnistConvNet(channels, side)
        initialise_uniform(member, torch.Generator().manual_seed(seed))
        members.append(member.to(dtype))
    return members


def batches(
    members: int, images: int, channels: int = 1, side: int = 28, dtype: torch.dtype = torch.float64, seed: int = 0
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Noise with an even background on one side, where maxima are equal as on MNIST."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(members, images, channels, side, side, generator=generator, dtype=dtype)
    inputs[..., : side // 2] = -0.4
    return list(zip(inputs, torch.randint(0, 10, (members, images), generator=generator), strict=True))


@PICTURES
def test_losses_and_gradients_are_those_of_autograd(channels: int, side: int):
    ensemble = ConvolutionalEnsemble(networks(2, channels, side))
    step = batches(2, 6, channels, side)
    losses = ensemble.losses_and_gradients(step)
    for index, (inputs, targets) in enumerate(step):
        member = ensemble.members[index]
        loss = functional.cross_entropy(member(inputs), targets)
        gradients = torch.autograd.grad(loss, list(member.parameters()))
        assert float(losses[index]) == pytest.approx(float(loss.detach()), abs=1e-12)
        torch.testing.assert_close(ensemble.gradients[index], ensemble.row(list(gradients)), rtol=0, atol=1e-12)


@PICTURES
def test_twenty_steps_are_those_of_the_members_one_by_one_to_1e_10(channels: int, side: int):
    rows = []
    for kind in (Ensemble, ConvolutionalEnsemble):
        ensemble = kind(networks(3, channels, side))
        optimiser = HeavyBall(ensemble.weights, learning_rate=0.05, momentum=0.5)
        for step in range(20):
            count = 3 if step % 5 == 4 else 6  # the last batch of an epoch is smaller
            ensemble.losses_and_gradients(batches(3, count, channels, side, seed=step))
            optimiser.step(ensemble.gradients)
        rows.append(ensemble.weights)
    torch.testing.assert_close(*rows, rtol=0, atol=1e-10)


def test_of_equal_maxima_the_first_takes_the_slope():
    ensemble = ConvolutionalEnsemble(networks(1))
    with torch.no_grad():
        ensemble.members[0].convolution2.weight.zero_()  # every place of the second pooling is a tie
        ensemble.members[0].convolution2.bias.fill_(1.0)
    ((inputs, targets),) = step = batches(1, 4)
    ensemble.losses_and_gradients(step)
    loss = functional.cross_entropy(ensemble.members[0](inputs), targets)
    gradients = torch.autograd.grad(loss, list(ensemble.members[0].parameters()))
    assert bool((gradients[2] != 0).any())
    torch.testing.assert_close(ensemble.gradients[0], ensemble.row(list(gradients)), rtol=0, atol=1e-12)


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


def test_batches_of_different_sizes_are_refused():
    ensemble = ConvolutionalEnsemble(networks(2))
    with pytest.raises(ValueError, match="all of one size"):
        ensemble.losses_and_gradients([*batches(1, 4), *batches(1, 3)])
    with pytest.raises(ValueError, match="one batch a member"):
        ensemble.losses_and_gradients(batches(1, 4))
