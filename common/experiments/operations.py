"""Operations of a piece of work, counted as torch dispatches them: how many, floating point, bytes, memory."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import conv_flop_count, flop_registry

from common.experiments.live_memory import LiveMemory, dense_parts

aten = torch.ops.aten

KINDS: Mapping[Any, str] = {
    aten.mm: "products",
    aten.addmm: "products",
    aten.convolution: "convolutions",
    aten._convolution: "convolutions",
    aten.convolution_backward: "convolutions",
}
"""Operations whose floating-point operations are counted, by the kind of work that they are; others that torch has a
formula for are batched products."""

GATHERING = frozenset({aten.index, aten.index_select, aten.gather, aten.embedding, aten.take})
"""Operations that read as much of their first argument as they return."""


class CountedOperations(LiveMemory):
    """Counts the operations on tensors of a device, as they reach its kernels: below autograd and `torch.func`.

    A product of (m × k) and (k × n) counts 2 m k n floating-point operations, a convolution as
    `torch.utils.flop_counter` has it, and as many again for each gradient of it. Everything else is counted in the
    bytes that it reads and writes: each tensor once, what is gathered as far as it is returned. Views move nothing and
    are counted as operations alone. A product with a sparse matrix counts as the bytes that are stored of it. What
    Python or NumPy do is not seen, nor is what a kernel does inside.

    Attributes:
        amounts: `operations`, `bytes` moved by those that are no product, and floating-point operations by kind:
            `products`, `batched_products`, `convolutions`, in float64 each with `_double` behind it.

    Example:
        >>> with CountedOperations(torch.device("cpu")) as counted:
        ...     total = torch.ones(3, 4) @ torch.ones(4, 5)
        >>> counted.amounts["products"]
        120
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.amounts: Counter[str] = Counter()

    def operation(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operation returns, counted."""
        found = super().operation(func, args, kwargs)
        self.amounts["operations"] += 1
        if func.is_view:
            return found
        given, made = _tensors((args, kwargs)), _tensors(found)
        packet = func.overloadpacket
        if packet in flop_registry and all(tensor.layout == torch.strided for tensor in given):
            double = any(tensor.dtype == torch.float64 for tensor in made)
            kind = KINDS.get(packet, "batched_products") + ("_double" if double else "")
            self.amounts[kind] += _flops(packet, args, kwargs, found)
        else:
            self.amounts["bytes"] += _size(made) + (_size(made) if packet in GATHERING else _size(given))
        return found


def _flops(packet: Any, args: Any, kwargs: Any, found: Any) -> int:
    if packet is aten.convolution_backward:  # torch's formula takes the groups of a gradient for one
        gradient, inputs, weight, transposed, needed = args[0], args[1], args[2], args[7], args[10]
        each = int(conv_flop_count(inputs.shape, weight.shape, gradient.shape, transposed))
        return each * sum(map(bool, needed[:2]))
    return int(flop_registry[packet](*args, **kwargs, out_val=found))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _size(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of tensors; of one that is expanded or sparse those that there are."""
    return sum(sum(map(_stored, dense_parts(tensor))) for tensor in tensors)


def _stored(tensor: torch.Tensor) -> int:
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
