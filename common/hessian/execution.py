"""How the model is called, so that it can be differentiated twice and gives the same numbers each time.

Attention takes the composed path. What else is needed is switched on where it is: compiled parts run as they are
written (a compiled graph has no second derivative), recurrent layers on a GPU without cuDNN (which has none either),
the transformer layers of torch without their shortcut for inference where that gives other outputs, and an
operation written out where torch's own has no right second derivative.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode


class Execution:
    """Calls a model.

    Attributes:
        model: without the wrapper of `torch.compile`.
        eager: compiled parts run as written.
        written_out: operations that are composed of others (`WrittenOut`), by name.
        met: those of them that a derivative was taken of since this was emptied.
        plain_transformers: no shortcut for inference.
        lent: others stand in the places of the model's parameters for now (`Sample.weights`).
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = uncompiled(model)
        modules = list(self.model.modules())
        self.eager = any(_is_compiled(module) for module in modules)
        self.written_out: frozenset[str] = frozenset()
        self.met: set[str] = set()
        self.plain_transformers = False
        self.lent = False
        self._transformers = [m for m in modules if isinstance(m, nn.TransformerEncoder | nn.TransformerEncoderLayer)]
        self._recurrent = any(isinstance(module, nn.RNNBase) for module in modules)

    def __call__(self, inputs: Any, tensors: Mapping[str, torch.Tensor] | None = None) -> Any:
        """model(*inputs) or model(**inputs), with these tensors in place of its own of the same names."""
        named = inputs if isinstance(inputs, dict) else {}
        positional = () if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else (inputs,)
        with self.setting():
            if tensors is None:
                return self.model(*positional, **named)
            return functional_call(self.model, dict(tensors), positional, named, tie_weights=False)

    def look_at_masks(self, inputs: Any) -> None:
        """Leave torch's shortcut for inference out if its transformer layers get a padding mask in a pass.

        The shortcut drops what is padded, so that outputs without a graph are not those with one.
        """
        found: list[bool] = []

        def masked(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            found.append(kwargs.get("src_key_padding_mask") is not None or (len(args) > 2 and args[2] is not None))

        handles = [m.register_forward_pre_hook(masked, with_kwargs=True) for m in self._transformers]
        if handles:
            try:
                self.plain_transformers = True
                self(inputs)
            finally:
                self.plain_transformers = any(found)
                for handle in handles:
                    handle.remove()

    @contextmanager
    def setting(self) -> Iterator[None]:
        """Within: what the model and its parts are called in."""
        with sdpa_kernel(SDPBackend.MATH), ExitStack() as stack:
            if self.eager:
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            if self._recurrent and torch.backends.cudnn.is_available():
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            if self.plain_transformers:
                stack.enter_context(_without_shortcut())
            if self.written_out:
                stack.enter_context(WrittenOut(self.written_out, self.met))
            yield


def uncompiled(model: nn.Module) -> nn.Module:
    """The module inside the wrapper of `torch.compile`, or the model."""
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else model


def _is_compiled(module: nn.Module) -> bool:
    return isinstance(getattr(module, "_orig_mod", None), nn.Module) or (
        getattr(module, "_compiled_call_impl", None) is not None
    )


@contextmanager
def _without_shortcut() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class WrittenOut(TorchFunctionMode):
    """Within: these operations are composed of others, whose second derivatives are right.

    In torch 2.13 that of the fused weight normalisation (`torch._weight_norm`, which `nn.utils.weight_norm` and
    `nn.utils.parametrizations.weight_norm` call) is wrong, and the hard sigmoid has none.

    Args:
        names: of "weight_norm" and "hardsigmoid".
        met: gets the names of those that are called on what requires a gradient.
    """

    def __init__(self, names: frozenset[str], met: set[str]) -> None:
        super().__init__()
        self._names, self._met = names, met

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = "weight_norm" if function is torch._weight_norm else getattr(function, "__name__", "")
        kind, kwargs = name.removesuffix("_"), kwargs or {}
        if kind not in self._names:
            return function(*args, **kwargs)
        value = weight_norm(*args, **kwargs) if kind == "weight_norm" else nn.functional.relu6(args[0] + 3) / 6
        if value.requires_grad:
            self._met.add(kind)
        return args[0].copy_(value) if name.endswith("_") or kwargs.get("inplace") else value


def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """g v/‖v‖, the norm over all axes but `dim` (over all with −1)."""
    axes = [axis for axis in range(v.ndim) if dim == -1 or axis != dim % v.ndim]
    return v * (g / v.square().sum(axes, keepdim=True).sqrt())
