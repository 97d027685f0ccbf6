"""A GPU that is pretended on a machine without one: which tensors would lie on it, and what it would refuse.

All tensors lie in the memory of this machine, as they must. Whether one would lie on the host or on the GPU is known by
its storage: what is made without a device, read from data or from a checkpoint lies on the host; what is made on `GPU`
or moved there lies on the GPU; and what an operation makes lies where its inputs do. An operation of tensors here and
there is refused, as a GPU refuses it, and so are draws there by a generator of the host: all generators here are. Of
what was made before, or inside of an operation, nothing is known, and nothing is refused.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from common.experiments.live_memory import LiveMemory

GPU = torch.device("cpu", 0)
"""The device that stands for the GPU; the host is `torch.device("cpu")`, which is another one."""

Place = Literal["host", "gpu"]
_PLACES: tuple[Place, ...] = ("gpu", "host")

_PARSE = torch._C._nn._parse_to
"""Device, type, whether it may not wait, and layout of what `to` is given."""
_CROSSING = {"copy_", "set_"}
"""Operations between host and GPU."""
_INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
"""Operations that take a list of indices, which may lie on the host."""


class PretendedGpu(LiveMemory):
    """Live memory of a GPU that is pretended: of all tensors that are not known to lie on the host.

    Example:
        >>> with PretendedGpu():
        ...     weights, targets = torch.ones(3, device=GPU), torch.ones(3)
        ...     weights * targets
        Traceback (most recent call last):
            ...
        RuntimeError: mul takes tensors on the host and on the GPU, which a GPU refuses; all belong on context.device
    """

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self._places: dict[int, Place] = {}
        self._making: Place | None = None
        self._entered = 0
        self._functions = _Functions(self)
        self._patches = (
            patch.object(nn.Module, "to", self._module_to()),
            patch.object(torch, "from_numpy", self._on_the_host(torch.from_numpy)),
            patch.object(torch, "frombuffer", self._on_the_host(torch.frombuffer)),
        )

    def _module_to(self) -> Callable[..., nn.Module]:
        """`Module.to`, which asks torch itself where a tensor that it is given lies."""
        real = nn.Module.to

        def to(module: nn.Module, *arguments: Any, **named: Any) -> nn.Module:
            other = named.pop("tensor", arguments[0] if arguments else None)
            if isinstance(other, torch.Tensor):
                arguments = (GPU if self.place(other) == "gpu" else torch.device("cpu"), other.dtype, *arguments[1:])
            return real(module, *arguments, **named)

        return to

    def _on_the_host(self, real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """A function that makes a tensor of memory of the host, which no mode of torch sees."""

        def made(*arguments: Any, **named: Any) -> torch.Tensor:
            found = real(*arguments, **named)
            self.put(found, "host")
            return found

        return made

    def __enter__(self) -> "PretendedGpu":
        """Within: devices are told apart. It is entered again for the parts of an operation (`LiveMemory`)."""
        super().__enter__()  # type: ignore[no-untyped-call]
        self._entered += 1
        if self._entered == 1:
            self._functions.__enter__()  # type: ignore[no-untyped-call]
            for each in self._patches:
                each.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        """Pretend no longer."""
        self._entered -= 1
        if not self._entered:
            for each in self._patches:
                each.__exit__(*raised)
            self._functions.__exit__(*raised)  # type: ignore[no-untyped-call]
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def place(self, tensor: torch.Tensor) -> Place | None:
        """Where a tensor lies; None where that is not known."""
        storage = _storage(tensor)
        return None if storage is None else self._places.get(id(storage))

    def put(self, tensor: Any, place: Place) -> None:
        """State where a tensor lies; anything else is left alone."""
        if not isinstance(tensor, torch.Tensor) or (storage := _storage(tensor)) is None:
            return
        key = id(storage)
        if key not in self._places:
            weakref.finalize(storage, self._places.pop, key, None).atexit = False
        self._places[key] = place
        if place == "host":
            self._forget(key)

    @contextmanager
    def making(self, place: Place) -> Iterator[None]:
        """Within: what is made of nothing, or of tensors of which nothing is known, lies there."""
        before, self._making = self._making, place
        try:
            yield
        finally:
            self._making = before

    def operation(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operation returns, which lies where its inputs do.

        Raises:
            RuntimeError: some of them lie on the host, others on the GPU; a number of the host goes anywhere. Or it
                draws on the GPU with a generator of the host.
        """
        name = func.overloadpacket.__name__
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if name in _INDEXED:  # a GPU takes indices of its tensors from the host, and the host none from a GPU
            inputs = inputs[:1] if self.place(inputs[0]) == "gpu" else inputs
        here = {self.place(tensor) for tensor in inputs if tensor.dim()}
        numbers = {self.place(tensor) for tensor in inputs if not tensor.dim()}
        if name not in _CROSSING and "host" in here and "gpu" in here | numbers:
            raise RuntimeError(
                f"{name} takes tensors on the host and on the GPU, which a GPU refuses; all belong on context.device"
            )
        known = next((place for places in (here, numbers) for place in _PLACES if place in places), self._making)
        if known == "gpu" and any(isinstance(leaf, torch.Generator) for leaf in tree_leaves((args, kwargs))):
            raise RuntimeError(
                f"{name} draws on the GPU with a generator of the host, which a GPU refuses; move what the host drew"
            )
        found = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]
        if known and name not in _CROSSING:
            for tensor in made:
                if self.place(tensor) is None:
                    self.put(tensor, known)
        for tensor in (*inputs, *made):
            self._count(tensor)
        return found

    def _count(self, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and (self.place(tensor) or self._making) != "host":
            super()._count(tensor)


class _Functions(TorchFunctionMode):
    """What is said of devices: asked for, moved between, named where something is made."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The function, with the device that is pretended."""
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if getattr(func, "__self__", None) is torch.Tensor.device:
            return GPU if self._gpu.place(args[0]) == "gpu" else func(*args, **kwargs)
        if name in ("to", "cpu") and isinstance(args[0], torch.Tensor):
            return self._moved(func, args, dict(kwargs), "host" if name == "cpu" else self._target(args, kwargs))
        if name in ("numpy", "__array__") and self._gpu.place(args[0]) == "gpu":
            raise TypeError("a tensor on the GPU cannot be read by numpy; move it to the host first")
        wanted = kwargs.get("device")
        if wanted is None and any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        with self._gpu.making(_place_of(wanted)):
            found = func(*args, **kwargs)
        for tensor in tree_leaves(found) if wanted is not None else ():  # also where it is made like one elsewhere
            self._gpu.put(tensor, _place_of(wanted))
        return found

    def _target(self, args: Any, kwargs: Any) -> Place | None:
        """Where `to` moves a tensor, None where it stays."""
        named = (*args[1:2], kwargs.get("other"), kwargs.get("device"))
        for value in named:
            if isinstance(value, torch.Tensor):
                return self._gpu.place(value)
            if isinstance(value, str | torch.device):
                return _place_of(value)
        return None

    def _moved(self, func: Any, args: Any, kwargs: dict[str, Any], target: Place | None) -> Any:
        """The tensor there: another one where it lay elsewhere, as between a host and its GPU."""
        tensor, name = args[0], func.__name__
        before = self._gpu.place(tensor)
        target = before if target is None else target
        if target is None:
            return func(*args, **kwargs)
        copy = bool(kwargs.pop("copy", False))  # torch would copy for another index of one device
        _, dtype, _, layout = _PARSE(*args[1:], **kwargs) if name == "to" else (None,) * 4
        with torch._C.DisableTorchFunction():
            found = tensor.to(dtype or tensor.dtype, copy=copy, memory_format=layout or torch.preserve_format)
        if before not in (None, target) and _storage(found) is _storage(tensor):
            with torch._C.DisableTorchFunction():
                found = found.clone()
        self._gpu.put(found, target)
        return found


def _place_of(device: Any) -> Place:
    """Where a device that is named lies; what is made without one lies on the host."""
    return "gpu" if device is not None and torch.device(device) == GPU else "host"


def _storage(tensor: torch.Tensor) -> Any:
    """What stands for the memory of a tensor, also of one that a transformation wraps: itself where it is sparse."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.untyped_storage() if tensor.layout == torch.strided else tensor
