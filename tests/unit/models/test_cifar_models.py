"""The networks for CIFAR images: sizes, skip connections, initial weights."""

import pytest
import torch

from common.models import ResidualCifar, ShallowCifar, initialise_uniform
from common.models.preactivation_resnet import PreactivationResNet
from common.models.wide_resnet import WideResNet


def count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(("depth", "parameters"), [(20, 269_722), (56, 853_018)])
def test_residual_networks_have_the_parameters_of_the_paper(depth: int, parameters: int) -> None:
    assert count(ResidualCifar(depth)) == count(ResidualCifar(depth, skip=False)) == parameters


def test_a_depth_that_is_not_6n_plus_2_is_refused() -> None:
    with pytest.raises(ValueError, match="6n"):
        ResidualCifar(18)


def test_without_convolutions_a_network_with_skip_connections_still_sees_its_input() -> None:
    images = torch.rand(3, 3, 16, 16)
    for skip in (True, False):
        network = ResidualCifar(8, width=4, skip=skip).eval()
        with torch.no_grad():
            for block in network.blocks:
                block.convolution1.weight.zero_()
                block.convolution2.weight.zero_()
            spread = float(network(images).std(0).max())
        assert (spread > 1e-4) is skip


def test_initial_weights_come_from_the_generator_alone_and_have_hes_variance() -> None:
    first, second = ResidualCifar(8), ResidualCifar(8)
    for network in (first, second):
        network.initialise(torch.Generator().manual_seed(4))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    last = first.blocks[-1].convolution2.weight
    assert float(last.detach().std()) == pytest.approx((2 / last[0].numel()) ** 0.5, rel=0.02)


def test_the_shallow_network_maps_pictures_to_logits_of_each_on_its_own() -> None:
    network = ShallowCifar()
    initialise_uniform(network, torch.Generator().manual_seed(0))
    images = torch.rand(4, 3, 32, 32)
    assert count(network) == 1_756_426
    assert torch.allclose(network(images)[:2], network(images[:2]), atol=1e-5)


@pytest.mark.parametrize("network", [WideResNet(10, 1, base=4), PreactivationResNet(11, width=4)], ids=["wide", "pre"])
def test_narrow_shortcuts_have_the_same_gradients_in_both_memory_formats(network: torch.nn.Module) -> None:
    images = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    found = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        inputs = images.to(memory_format=memory_format)
        loss = network.to(memory_format=memory_format)(inputs).square().mean()  # type: ignore[call-overload]
        found.append(torch.autograd.grad(loss, list(network.parameters())))
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-5)
