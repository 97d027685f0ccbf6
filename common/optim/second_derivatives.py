"""Convolution and batch normalisation whose backward pass is differentiated at the cost of its arithmetic, on a CPU.

torch composes the second derivative of batch normalisation of some twenty passes over the activations, and transposes
examples and channels for that of a convolution. Here the derivative of a convolution's backward pass is convolutions
again; that of batch normalisation, with x̂ = (x − μ) r, batch mean μ and r = (variance + ε)^{-1/2}, is a closed form:

    P g = r (g − mean g − x̂ mean(g x̂)),  the backward pass is  γ P g,  Σ g x̂,  Σ g;

for cotangents v, a, b of these three, per channel of N entries and with t = Σ g x̂, s = Σ v x̂ and k = Σ v P g,

    of g:  γ P v + a x̂ + b;    of γ:  k;    of x:  (a − γ r s/N) P g − (γ r t/N) P v − (γ r k/N) x̂.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Pair = tuple[int, int]


class CheapSecondDerivatives(TorchFunctionMode):
    """Within: convolutions and training-mode batch normalisation on a CPU are those of this module.

    The first derivatives are torch's. A third derivative through batch normalisation is refused with an error.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.batch_norm:
            return _normalise(func, *args, **kwargs)
        if func is torch.conv2d:
            return _convolve(func, *args, **kwargs)
        return func(*args, **kwargs)


def _normalise(func: Callable[..., Any], inputs: torch.Tensor, mean: Any, variance: Any, **options: Any) -> Any:
    weight, bias = options["weight"], options["bias"]
    if not options["training"] or weight is None or bias is None or inputs.device.type != "cpu":
        return func(inputs, mean, variance, **options)
    return _apply(_Normalisation, inputs, weight, bias, mean, variance, options["momentum"], options["eps"])


def _convolve(
    func: Callable[..., Any],
    inputs: torch.Tensor,
    weight: torch.Tensor,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    if groups != 1 or isinstance(padding, str) or inputs.ndim != 4 or inputs.device.type != "cpu":
        return func(inputs, weight, bias, stride, padding, dilation=dilation, groups=groups)
    outputs = _apply(_Convolution, inputs, weight, _pair(stride), _pair(padding), _pair(dilation))
    return outputs if bias is None else outputs + bias.view(-1, 1, 1)


def _apply(function: Any, *arguments: Any) -> Any:
    return function.apply(*arguments)


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[-1]))


class _Convolution(torch.autograd.Function):
    """x, w ↦ x ∗ w, bilinear; the derivative by each factor is `_PulledBack` or `_WeightSlope`."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, *how: Pair) -> torch.Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.how = how
        stride, padding, dilation = how
        return torch.conv2d(inputs, weight, stride=stride, padding=padding, dilation=dilation)

    @staticmethod
    def backward(ctx: Any, slopes: torch.Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        first, second = ctx.needs_input_grad[:2]
        pulled = _apply(_PulledBack, slopes, weight, _like(inputs), *ctx.how) if first else None
        slope = _apply(_WeightSlope, inputs, slopes, _like(weight), *ctx.how) if second else None
        return pulled, slope, None, None, None


class _PulledBack(torch.autograd.Function):
    """g, w ↦ the slope of ⟨x ∗ w, g⟩ by x."""

    @staticmethod
    def forward(ctx: Any, slopes: torch.Tensor, weight: torch.Tensor, like: torch.Tensor, *how: Pair) -> torch.Tensor:
        ctx.save_for_backward(slopes, weight)
        ctx.how = how
        return _backward(slopes, like, weight, how, [True, False, False])[0]

    @staticmethod
    def backward(ctx: Any, vectors: torch.Tensor) -> Any:
        slopes, weight = ctx.saved_tensors
        first, second = ctx.needs_input_grad[:2]
        pushed = _apply(_Convolution, vectors, weight, *ctx.how) if first else None
        slope = _apply(_WeightSlope, vectors, slopes, _like(weight), *ctx.how) if second else None
        return pushed, slope, None, None, None, None


class _WeightSlope(torch.autograd.Function):
    """x, g ↦ the slope of ⟨x ∗ w, g⟩ by w."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, slopes: torch.Tensor, like: torch.Tensor, *how: Pair) -> torch.Tensor:
        ctx.save_for_backward(inputs, slopes)
        ctx.how = how
        return _backward(slopes, inputs, like, how, [False, True, False])[1]

    @staticmethod
    def backward(ctx: Any, weights: torch.Tensor) -> Any:
        inputs, slopes = ctx.saved_tensors
        first, second = ctx.needs_input_grad[:2]
        pulled = _apply(_PulledBack, slopes, weights, _like(inputs), *ctx.how) if first else None
        pushed = _apply(_Convolution, inputs, weights, *ctx.how) if second else None
        return pulled, pushed, None, None, None, None


def _backward(
    slopes: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, how: tuple[Pair, ...], mask: list[bool]
) -> list[torch.Tensor]:
    stride, padding, dilation = how
    result: list[torch.Tensor] = torch.ops.aten.convolution_backward(
        slopes, inputs, weight, None, stride, padding, dilation, False, [0, 0], 1, mask
    )
    return result


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of the same shape and layout; nobody reads it."""
    return torch.empty_like(tensor)


class _Normalisation(torch.autograd.Function):
    """Batch normalisation by batch statistics; running ones are moved as torch does."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        running_mean: Any,
        running_variance: Any,
        momentum: float,
        eps: float,
    ) -> torch.Tensor:
        outputs, mean, scale = torch.native_batch_norm(
            inputs, weight, bias, running_mean, running_variance, training=True, momentum=momentum, eps=eps
        )
        ctx.save_for_backward(inputs, weight, mean, scale)
        return outputs

    @staticmethod
    def backward(ctx: Any, slopes: torch.Tensor) -> Any:
        return *_apply(_NormalisationSlopes, slopes, *ctx.saved_tensors), None, None, None, None


class _NormalisationSlopes(torch.autograd.Function):
    """The backward pass of `_Normalisation`."""

    @staticmethod
    def forward(
        ctx: Any,
        slopes: torch.Tensor,
        inputs: torch.Tensor,
        weight: torch.Tensor,
        mean: torch.Tensor,
        scale: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        projected, along, total = _projected(slopes, inputs, mean, scale)
        ctx.save_for_backward(inputs, weight, mean, scale, projected, along)
        return projected * _across(weight, inputs), along, total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
        inputs, weight, mean, scale, projected, along = ctx.saved_tensors
        axes = [axis for axis in range(inputs.ndim) if axis != 1]
        count = inputs.numel() // inputs.shape[1]
        other, common, _ = _projected(v, inputs, mean, scale)
        product = (v * projected).sum(axes)

        def centred(factor: torch.Tensor) -> torch.Tensor:  # factor x̂, in one pass
            return torch.addcmul(_across(-factor * scale * mean, inputs), inputs, _across(factor * scale, inputs))

        shrink = -weight * scale / count
        slope = centred(a).add_(_across(b, inputs)).addcmul_(other, _across(weight, inputs))
        pulled = centred(shrink * product).addcmul_(other, _across(shrink * along, inputs))
        return slope, pulled.addcmul_(projected, _across(a + shrink * common, inputs)), product, None, None


def _projected(
    slopes: torch.Tensor, inputs: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """P g, Σ g x̂ and Σ g."""
    result: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.ops.aten.native_batch_norm_backward(
        slopes, inputs, torch.ones_like(scale), None, None, mean, scale, True, 0.0, [True, True, True]
    )
    return result


def _across(channels: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return channels.view(-1, *[1] * (like.ndim - 2))
