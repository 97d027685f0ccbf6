"""Memory that tensors hold, counted operation by operation: the same on every machine, whatever an allocator keeps."""

import weakref
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of all tensors on a device that an operation made or read and that are still alive.

    An operation is one that reaches its kernel: one that is made of others is seen as these, in inference mode, too.
    Work space inside an operation is not seen, nor are tensors that no operation has touched.

    Attributes:
        live: bytes now.
        peak: most so far.

    Example:
        >>> with LiveMemory(torch.device("cpu")) as memory:
        ...     total = (torch.ones(1000) + 1).sum()
        >>> memory.live, memory.peak
        (4, 8000)
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._device = device.type
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation as it is, in its parts where it has some."""
        if not _of_parts(func):
            return self.operation(func, args, kwargs or {})
        with self:
            return func.decompose(*args, **(kwargs or {}))

    def operation(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operation returns; what goes in and comes out is counted."""
        for tensor in (*args, *kwargs.values()):
            self._count(tensor)
        found = func(*args, **kwargs)
        for tensor in tree_leaves(found):
            self._count(tensor)
        return found

    def _count(self, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor) and tensor.layout != torch.strided:
            tensor = dense_parts(tensor)
        if isinstance(tensor, list | tuple):
            for member in tensor:
                self._count(member)
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != self._device:
            return
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()
        known = self._sizes.get(key)
        if known is None:
            weakref.finalize(storage, self._forget, key).atexit = False
        if known != size:
            self._sizes[key] = size
            self.live += size - (known or 0)
            self.peak = max(self.peak, self.live)

    def _forget(self, key: int) -> None:
        self.live -= self._sizes.pop(key, 0)


@cache
def _of_parts(func: Any) -> bool:
    """Whether an operation is made of others; outside of inference mode none such comes as far as here."""
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return bool(kernel)


def dense_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors that a tensor is stored as."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    pointers = [tensor.crow_indices(), tensor.col_indices()] if rows else [tensor.ccol_indices(), tensor.row_indices()]
    return [*pointers, tensor.values()]
