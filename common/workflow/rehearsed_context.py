"""The context of a rehearsed call: it stops at a checkpoint, tells what a GPU would refuse, and has data for all."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from common.errors import DataUnavailable
from common.experiments.context import Clock, RunContext
from common.experiments.live_memory import LiveMemory

if TYPE_CHECKING:
    from common.datasets import Dataset

STOP_AT = 2
"""The checkpoint at which a call is interrupted: after the first, a step has been taken."""


class Enough(BaseException):
    """A call that was started only to see how far its memory goes has gone far enough."""


class OnHost(torch.Tensor):
    """A tensor of a checkpoint, which lies in the memory of the host until it is moved or copied to a device.

    On a machine without a GPU it tells what a GPU would refuse: an operation of tensors here and there.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation, refused where it takes tensors of both kinds; what is moved is on the device from then on."""
        with torch._C.DisableTorchFunctionSubclass():
            return _done(func, args, kwargs or {})


def _done(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation on tensors of which some lie on the host makes, on the host where all do."""
    name = getattr(func, "__name__", "")
    if name == "__getitem__" and not isinstance(args[0], OnHost):  # a device takes indices from the host
        return func(*args, **kwargs)
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    here = [isinstance(tensor, OnHost) for tensor in tensors]
    if any(here) and not all(here) and name not in _CROSSING:
        raise RuntimeError(
            f"a tensor of the checkpoint is still on the host in {name}(): a GPU would refuse it; move what "
            "restore() returns to context.device"
        )
    found = func(*args, **kwargs)
    if name == "to" and _names_device((*args[1:], *kwargs.values())):
        return _plain(found)
    if name in ("copy_", "__setitem__"):
        return found
    return tree_map_only(torch.Tensor, _on_host, found) if any(here) else found


_CROSSING = ("copy_", "__setitem__", "to", "set_", "__get__", "__set__")
"""What torch does between host and device."""


def _names_device(arguments: Any) -> bool:
    """Whether `to` names where to."""
    return any(isinstance(value, str | torch.device | torch.Tensor) for value in arguments)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(OnHost)


class RehearsedContext(RunContext):
    """Stops its call at the second checkpoint, and knows how much tensors held when.

    Attributes:
        checkpoints: that were offered.
        lasting: most bytes of tensors that were alive at a checkpoint, record, artifact or report of progress.
        made: data sets that could not be had and were made.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.checkpoints = self.lasting = 0
        self.made: list[str] = []
        self.memory: LiveMemory | None = None
        self.stop: Callable[[Clock], None] | None = None
        self.pretend = False

    def restore(self) -> Any | None:
        """The state of the checkpoint, marked where a GPU is pretended."""
        state = super().restore()
        return tree_map_only(torch.Tensor, _on_host, state) if self.pretend else state

    def checkpoint(self, state: Any) -> None:
        """Offer a state; the call stops at the second, and none is written after it."""
        self._look()
        self.checkpoints += 1
        if self.checkpoints == STOP_AT and self.stop is not None:
            self.stop(self._clock)
        if self.checkpoints <= STOP_AT:
            super().checkpoint(tree_map_only(OnHost, _plain, state))

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Say how far this call is."""
        self._look()
        super().progress(done, total, message)

    def save(self, run: Any, name: str, tensors: Any) -> None:
        """Keep tensors."""
        self._look()
        super().save(run, name, tree_map_only(OnHost, _plain, dict(tensors)))

    def data(self, name: str) -> "Dataset":
        """A registered data set, or a made one in its shape."""
        try:
            return super().data(name)
        except DataUnavailable:
            from common.workflow.made_data import made_dataset

            found = made_dataset(name)
            if found is None:
                raise
            self.made.append(name)
            return found

    def _look(self) -> None:
        if self.memory is not None:
            self.lasting = max(self.lasting, self.memory.live)


def interrupt(clock: Clock) -> None:
    """Have a checkpoint written and the call end there."""
    clock.stop_requested = True


def leave(clock: Clock) -> None:
    """End the call as it stands."""
    raise Enough
