"""How much a recorded computation keeps for its derivative."""

from collections.abc import Callable

import torch
from torch import nn


def saved_bytes(compute: Callable[[], torch.Tensor], model: nn.Module) -> int:
    """Bytes of the tensors that the graph of `compute` keeps, each memory once, without those of the model itself.

    Example:
        >>> model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
        >>> saved_bytes(lambda: model(torch.ones(3, 10)), model)  # the inputs and what tanh makes of them, in float32
        360
    """
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    held: list[torch.Tensor] = []  # so that no memory is used twice

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        """Detached, as an operation that keeps its own output would else hold itself; a model may differentiate."""
        if tensor.layout == torch.strided:
            held.append(tensor.detach())
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        compute()
    parts: dict[int, dict[int, int]] = {}  # of each memory, by where they begin
    whole: dict[int, int] = {}
    for tensor in held:
        storage, begin = tensor.untyped_storage(), int(tensor.storage_offset())
        if (place := storage.data_ptr()) not in own:
            mine, whole[place] = parts.setdefault(place, {}), storage.nbytes()
            mine[begin] = max(mine.get(begin, 0), tensor.nbytes)
    return sum(min(sum(mine.values()), whole[place]) for place, mine in parts.items())
