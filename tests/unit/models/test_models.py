"""The networks for pictures: published parameter counts, shapes, initial weights, skip connections."""

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from common.models import FullyConnected, MnistConvNet, initialise_uniform, parameter_count, rescale
from common.models.all_convolutional import AllConvolutional
from common.models.mnist_perceptron import MnistPerceptron
from common.models.preactivation_resnet import PreactivationResNet
from common.models.residual import initialise_convolutions
from common.models.residual_cifar import ResidualCifar
from common.models.shallow_cifar import ShallowCifar
from common.models.small_vgg import SmallVGG
from common.models.wide_resnet import WideResNet

AUTHORS_SIZES = (784, 500, 500, 500, 10)
THIN: dict[str, Callable[[], nn.Module]] = {
    "wide": lambda: WideResNet(10, 2, classes=7, base=4),
    "preactivation": lambda: PreactivationResNet(11, width=4, classes=7),
    "all convolutional": lambda: AllConvolutional(width=4, classes=7),
    "residual": lambda: ResidualCifar(8, width=4, classes=7),
}


Weights = dict[str, torch.Tensor]


def convolved(values: torch.Tensor, weights: Weights, name: str, stride: int = 1, padding: int = 0) -> torch.Tensor:
    return functional.conv2d(values, weights[f"{name}.weight"], weights.get(f"{name}.bias"), stride, padding)


def rectified(values: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    """relu ∘ norm by running statistics."""
    return torch.relu(normalised(values, weights, name))


def normalised(values: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    mean, variance, gain, shift = (
        weights[f"{name}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (values - mean) / (variance + 1e-5).sqrt() * gain + shift


def read_out(values: torch.Tensor, weights: Weights, name: str = "output") -> torch.Tensor:
    return functional.linear(values, weights[f"{name}.weight"], weights[f"{name}.bias"])


def wide(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    values = convolved(values, weights, "convolution", padding=1)
    for block, stride in enumerate((1, 2, 2)):
        name = f"blocks.{block}."
        inner = convolved(
            rectified(values, weights, f"{name}normalisation1"), weights, f"{name}convolution1", padding=1
        )
        inner = rectified(inner, weights, f"{name}normalisation2")
        inner = convolved(inner, weights, f"{name}convolution2", stride, padding=1)
        values = inner + convolved(values, weights, f"{name}shortcut", stride)
    return read_out(rectified(values, weights, "normalisation").mean((2, 3)), weights)


def preactivation(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    values = convolved(values, weights, "convolution", padding=1)
    for block, stride in enumerate((1, 2, 2)):
        inner = values
        for place, (step, padding) in enumerate(((1, 0), (stride, 1), (1, 0)), start=1):
            inner = rectified(inner, weights, f"blocks.{block}.normalisation{place}")
            inner = convolved(inner, weights, f"blocks.{block}.convolution{place}", step, padding)
        values = inner + convolved(values, weights, f"blocks.{block}.shortcut", stride)
    return read_out(rectified(values, weights, "normalisation").mean((2, 3)), weights)


def all_convolutional(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    for place, how in enumerate([(1, 1), (1, 1), (2, 1), (1, 1), (1, 1), (2, 1), (1, 0), (1, 0)]):
        values = torch.relu(convolved(values, weights, f"features.{2 * place}", *how))
    return convolved(values, weights, "output").mean((2, 3))


def residual(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    values = rectified(convolved(values, weights, "convolution", padding=1), weights, "normalisation")
    for block, stride in enumerate((1, 2, 2)):
        name = f"blocks.{block}."
        inner = convolved(values, weights, f"{name}convolution1", stride, padding=1)
        inner = convolved(rectified(inner, weights, f"{name}normalisation1"), weights, f"{name}convolution2", padding=1)
        thin = values[:, :, ::stride, ::stride]
        padded = torch.cat([thin, thin.new_zeros(len(thin), inner.shape[1] - thin.shape[1], *thin.shape[2:])], dim=1)
        values = torch.relu(padded + normalised(inner, weights, f"{name}normalisation2"))
    return read_out(values.mean((2, 3)), weights)


def shallow(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    for name in ("convolution1", "convolution2"):
        values = functional.max_pool2d(torch.relu(convolved(values, weights, name, padding=2)), 3, 2, 1)
    values = values.flatten(1)
    for name in ("hidden1", "hidden2"):
        values = torch.relu(read_out(values, weights, name))
    return read_out(values, weights)


def small_vgg(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    for place in range(5):
        values = functional.max_pool2d(torch.relu(convolved(values, weights, f"features.{3 * place}", padding=1)), 2)
    return read_out(torch.relu(read_out(values.flatten(1), weights, "classifier.1")), weights, "classifier.3")


def mnist(values: torch.Tensor, weights: Weights) -> torch.Tensor:
    for name in ("convolution1", "convolution2"):
        values = torch.relu(functional.max_pool2d(convolved(values, weights, name), 2))
    return read_out(torch.relu(read_out(values.flatten(1), weights, "hidden")), weights)


WRITTEN_OUT: dict[str, tuple[Callable[[], nn.Module], Callable[[torch.Tensor, Weights], torch.Tensor]]] = {
    "wide": (THIN["wide"], wide),
    "preactivation": (THIN["preactivation"], preactivation),
    "all convolutional": (THIN["all convolutional"], all_convolutional),
    "residual": (THIN["residual"], residual),
    "shallow": (ShallowCifar, shallow),
    "small VGG": (SmallVGG, small_vgg),
    "MNIST": (lambda: MnistConvNet(3, 32), mnist),
}


def initialised(model: nn.Module, seed: int) -> nn.Module:
    source = torch.Generator().manual_seed(seed)
    model.initialise(source) if hasattr(model, "initialise") else initialise_uniform(model, source)
    return model


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (MnistConvNet, 21_840),
        (lambda: MnistConvNet(3, 32), 31_340),
        (MnistPerceptron, 9_960),
        (AllConvolutional, 1_387_108),
        (PreactivationResNet, 1_726_388),
        (WideResNet, 36_546_980),
        (lambda: WideResNet(58, 3, classes=10), 7_661_722),
        (lambda: WideResNet(58, 3, classes=100), 7_679_092),
        (lambda: WideResNet(58, 3, classes=200), 7_698_392),
        (lambda: ResidualCifar(20), 269_722),
        (lambda: ResidualCifar(20, skip=False), 269_722),
        (lambda: ResidualCifar(56), 853_018),
        (lambda: ResidualCifar(56, skip=False), 853_018),
        (ShallowCifar, 1_756_426),
        (lambda: FullyConnected(AUTHORS_SIZES), 898_510),
        (SmallVGG, 71_410),
    ],
)
def test_parameter_counts_are_the_published_ones(make: Callable[[], nn.Module], count: int) -> None:
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in make().parameters()) == count


def test_parameters_are_counted_without_building_the_network() -> None:
    assert parameter_count(AUTHORS_SIZES) == 898_510


@pytest.mark.parametrize("name", THIN)
@pytest.mark.parametrize("side", [16, 32, 64])
def test_any_side_gives_a_logit_for_each_class(name: str, side: int) -> None:
    model = THIN[name]().eval()
    with torch.no_grad():
        assert model(torch.randn(2, 3, side, side)).shape == (2, 7)


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_networks_are_those_that_are_written_out_layer_by_layer(name: str) -> None:
    make, written_out = WRITTEN_OUT[name]
    model, source = make().double().eval(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                fan = max(1, tensor[0].numel()) if tensor.dim() > 1 else 4
                drawn = torch.randn(tensor.shape, generator=source, dtype=torch.float64) * (2 / fan) ** 0.5
                tensor.copy_(drawn.abs() + 0.5 if key.endswith("running_var") else drawn)
        images = torch.randn(4, 3, 32, 32, generator=source, dtype=torch.float64)
        torch.testing.assert_close(model(images), written_out(images, model.state_dict()))


@pytest.mark.parametrize(
    ("make", "convolution", "variance"),
    [
        (lambda: WideResNet(10, 4, base=4), "blocks.2.convolution1", 2 * 2 / (9 * (32 + 64))),
        (lambda: PreactivationResNet(11, width=16), "blocks.2.convolution3", 2 / 256),
        (lambda: ResidualCifar(8, width=16), "blocks.2.convolution1", 2 / (9 * 32)),
        (lambda: AllConvolutional(width=32), "features.6", 1 / (3 * 9 * 32)),
    ],
    ids=["wide", "preactivation", "residual", "all convolutional"],
)
def test_each_network_is_drawn_anew_by_its_own_rule(
    make: Callable[[], nn.Module], convolution: str, variance: float
) -> None:
    model = make()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(7)
    initialised(model, 0)
    weight = model.get_parameter(f"{convolution}.weight").detach()
    assert float(weight.var()) == pytest.approx(variance, rel=0.05)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            for values, fresh in ((layer.weight, 1), (layer.bias, 0), (layer.running_mean, 0), (layer.running_var, 1)):
                assert values is not None
                assert bool((values == fresh).all())
        elif isinstance(layer, nn.Linear):
            bound = layer.in_features**-0.5
            assert 0.9 * bound < float(layer.weight.detach().abs().max()) <= bound
            assert float(layer.bias.detach().abs().max()) <= bound


@pytest.mark.parametrize("make", [*THIN.values(), MnistConvNet], ids=[*THIN, "MNIST"])
def test_initial_weights_come_from_the_generator_alone(make: Callable[[], nn.Module]) -> None:
    first, second, other = (list(initialised(make(), seed).parameters()) for seed in (5, 5, 6))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("rule", "deviation", "largest"),
    [
        ("fan_in_normal", math.sqrt(2 / 360), math.inf),
        ("fan_out_normal", math.sqrt(2 / 540), math.inf),
        ("xavier_uniform", math.sqrt(2 * 6 / 900 / 3), math.sqrt(2 * 6 / 900)),
    ],
)
def test_initial_weights_have_the_deviation_of_their_rule(rule: str, deviation: float, largest: float) -> None:
    layer = nn.Sequential(nn.Conv2d(40, 60, 3))
    initialise_convolutions(layer, torch.Generator().manual_seed(0), rule)  # type: ignore[arg-type]
    assert float(layer[0].weight.detach().std()) == pytest.approx(deviation, rel=0.02)
    assert float(layer[0].weight.detach().abs().max()) <= largest
    assert float(layer[0].bias.detach().abs().max()) == 0


def test_the_small_vgg_begins_as_its_authors_do() -> None:
    network = SmallVGG()
    network.initialise(torch.Generator().manual_seed(0))
    last = network.features[12]
    assert float(last.weight.detach().std()) == pytest.approx(math.sqrt(2 / (9 * 64)), rel=0.02)
    assert float(last.bias.detach().abs().max()) == 0


def test_initial_weights_fill_the_range_of_pytorchs_default() -> None:
    layer = nn.Linear(400, 300)
    initialise_uniform(layer, torch.Generator().manual_seed(0))
    bound = 1 / math.sqrt(400)
    for values in (layer.weight, layer.bias):
        assert float(values.detach().abs().max()) <= bound
    assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.01)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda source: initialise_uniform(nn.Sequential(nn.LayerNorm(2)), source), "LayerNorm"),
        (lambda source: initialise_convolutions(nn.Sequential(nn.LayerNorm(2)), source, "fan_out_normal"), "LayerNorm"),
        (lambda _: MnistConvNet(3, 30), "multiple of 4"),
        (lambda _: ResidualCifar(18), "6n"),
        (lambda _: WideResNet(12), "depth 12"),
        (lambda _: PreactivationResNet(12), "depth 12"),
        (lambda _: FullyConnected((3,)), "all positive"),
        (lambda _: FullyConnected((3, 0, 1)), "all positive"),
    ],
)
def test_layers_without_a_rule_and_sizes_that_are_no_network_are_refused(call: Callable, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call(torch.Generator())


def test_outputs_are_equal_with_and_without_gradients() -> None:
    model, images = MnistConvNet(), torch.randn(4, 1, 28, 28)
    with torch.no_grad():
        without = model(images)
    assert torch.equal(model(images).detach(), without)
    assert without.shape == (4, 10)


def test_outputs_have_the_promised_shapes() -> None:
    assert SmallVGG()(torch.zeros(2, 3, 32, 32)).shape == (2, 2)
    assert SmallVGG(10)(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert ShallowCifar()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert FullyConnected((784, 4, 1))(torch.zeros(3, 1, 28, 28)).shape == (3, 1)


def test_a_network_without_hidden_layer_is_linear_and_one_with_has_relu_between() -> None:
    inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    linear, deep = FullyConnected((3, 2)), FullyConnected((3, 8, 2))
    torch.testing.assert_close(linear(2 * inputs) - linear(inputs), linear(inputs) - linear(0 * inputs))
    hidden = torch.relu(deep.layers[0](inputs))
    torch.testing.assert_close(deep(inputs), deep.layers[1](hidden))


def test_rescaled_layers_leave_the_function() -> None:
    model, inputs = FullyConnected((7, 6, 5, 3)).double(), torch.randn(5, 7).double()
    before, first = model(inputs), model.layers[0].get_parameter("weight").detach().clone()
    rescale(model, 3.0)
    assert torch.allclose(model(inputs), before, rtol=1e-10)
    assert torch.equal(model.layers[0].get_parameter("weight"), 3 * first)


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


def test_a_wide_block_without_its_branch_is_the_identity() -> None:
    model = WideResNet(10, 1, classes=3, base=4)
    block = model.blocks[0]
    with torch.no_grad():
        block.convolution2.weight.zero_()
        block.convolution2.bias.zero_()
    features = torch.randn(2, 4, 8, 8)
    assert torch.equal(block(features), features)


@pytest.mark.parametrize(
    "make", [lambda: WideResNet(10, 1, base=4), lambda: PreactivationResNet(11, width=4)], ids=["wide", "pre"]
)
@pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last], ids=["contiguous", "channels last"]
)
def test_narrow_shortcuts_have_the_same_gradients_in_both_memory_formats(
    make: Callable[[], nn.Module], memory_format: torch.memory_format
) -> None:
    network = initialised(make(), 0)
    images = torch.randn(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))

    def gradient(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        slopes = torch.autograd.grad(network(images).square().mean(), list(network.parameters()))
        return torch.cat([slope.flatten().double() for slope in slopes])

    exact = gradient(copy.deepcopy(network).double(), images.double())
    found = gradient(network.to(memory_format=memory_format), images.to(memory_format=memory_format))  # type: ignore[call-overload]
    # Rounding moves the gradient by 1e-6, a rectifier that it turns on or off by up to 4e-3, a buffer overrun by more.
    assert float((found - exact).norm() / exact.norm()) < 1e-2
