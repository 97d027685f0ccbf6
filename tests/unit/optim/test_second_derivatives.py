import copy
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional

from common.models.residual_cifar import ResidualCifar
from common.optim.second_derivatives import CheapSecondDerivatives
from common.optim.trace_penalty import TracePenalty


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "bias"),
    [(1, 1, 1, False), (2, 1, 1, True), ((2, 1), (0, 1), 1, False), (1, 2, 2, True)],
)
def test_convolution_has_the_derivatives_of_finite_differences(stride, padding, dilation, bias):
    factors = [drawn(2, 2, 6, 5), drawn(3, 2, 3, 3), *([drawn(3)] if bias else [])]

    def outputs(images, weight, shift=None):
        with CheapSecondDerivatives():
            return functional.conv2d(images, weight, shift, stride, padding, dilation)

    shift = factors[2] if bias else None
    torch.testing.assert_close(
        outputs(*factors), functional.conv2d(factors[0], factors[1], shift, stride, padding, dilation)
    )
    factors = [factor.requires_grad_() for factor in factors]
    assert torch.autograd.gradcheck(outputs, factors)
    assert torch.autograd.gradgradcheck(outputs, factors)


@pytest.mark.parametrize("shape", [(3, 2, 4, 3), (7, 3)])
def test_batch_normalisation_has_the_derivatives_of_finite_differences(shape):
    values = [drawn(*shape), drawn(shape[1]), drawn(shape[1]) + 1]
    values = [value.requires_grad_() for value in values]

    def outputs(inputs, weight, bias):
        with CheapSecondDerivatives():
            return functional.batch_norm(inputs, None, None, weight, bias, training=True)

    assert torch.autograd.gradcheck(outputs, values)
    assert torch.autograd.gradgradcheck(outputs, values)


def test_a_scale_of_zero_has_second_derivatives_too():
    layer = nn.BatchNorm2d(2).double()
    nn.init.zeros_(layer.weight)
    images = drawn(3, 2, 4, 4).requires_grad_()
    found = []
    for derivatives in (CheapSecondDerivatives(), nullcontext()):
        with derivatives:
            outputs = layer(images)
        slopes = torch.autograd.grad(outputs.exp().sum(), [images, layer.weight], create_graph=True)
        found.append(torch.autograd.grad(sum(s.exp().sum() for s in slopes), [images, *layer.parameters()]))
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs)


def test_a_third_derivative_through_batch_normalisation_is_refused():
    images = drawn(4, 2, 3, 3).requires_grad_()
    with CheapSecondDerivatives():
        outputs = nn.BatchNorm2d(2).double()(images)
    (slope,) = torch.autograd.grad(outputs.pow(3).sum(), images, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), images, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        second.sum().backward()


@pytest.mark.parametrize("examples", [None, 3])
def test_the_trace_penalty_and_its_gradient_are_those_of_plain_double_backward(examples):
    torch.manual_seed(0)
    ours = ResidualCifar(8, classes=4).double()
    plain = copy.deepcopy(ours)
    images, labels = drawn(6, 3, 16, 16), torch.tensor([0, 1, 2, 3, 0, 1])
    loss, value = TracePenalty(examples=examples)(ours, images, labels, torch.Generator().manual_seed(1))
    (loss + 0.1 * value).backward()
    source = torch.Generator().manual_seed(1)
    whole = functional.cross_entropy(plain(images), labels)
    statistics = {name: buffer.clone() for name, buffer in plain.named_buffers()}
    chosen = torch.arange(6) if examples is None else torch.randperm(6, generator=source)[:examples]
    logits = plain(images[chosen])
    signs = torch.randint(0, 2, tuple(logits.shape), generator=source).double() * 2 - 1
    shares = logits.softmax(1)
    roots = shares.sqrt() * signs
    cotangent = (roots - shares * roots.sum(1, keepdim=True)) / len(chosen) ** 0.5
    slopes = torch.autograd.grad(logits, list(plain.parameters()), cotangent, create_graph=True)
    expected = sum(slope.square().sum() for slope in slopes)
    (whole + 0.1 * expected).backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-10)
    for (name, one), other in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-9, msg=name)
    for name, buffer in ours.named_buffers():
        torch.testing.assert_close(buffer, statistics[name], msg=name)
