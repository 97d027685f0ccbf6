"""The context of a rehearsed call: it stops at a checkpoint, tells what a GPU would refuse, and has data for all."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from common.errors import DataUnavailable
from common.experiments.context import Clock, RunContext
from common.experiments.live_memory import LiveMemory
from common.workflow.pretended_gpu import Place, PretendedGpu

if TYPE_CHECKING:
    from common.datasets import Dataset

STOP_AT = 2
"""The checkpoint at which a call is interrupted: after the first, a step has been taken."""


class Enough(BaseException):
    """A call that was started only to see how far its memory goes has gone far enough."""


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

    def restore(self) -> Any | None:
        """The state of the checkpoint, which lies on the host."""
        state = super().restore()
        self._put(state, "host")
        return state

    def checkpoint(self, state: Any) -> None:
        """Offer a state; the call stops at the second, and none is written after it."""
        self._look()
        self.checkpoints += 1
        if self.checkpoints == STOP_AT and self.stop is not None:
            self.stop(self._clock)
        if self.checkpoints <= STOP_AT:
            super().checkpoint(state)

    def progress(self, done: float, total: float, message: str = "") -> None:
        """Say how far this call is."""
        self._look()
        super().progress(done, total, message)

    def save(self, run: Any, name: str, tensors: Any) -> None:
        """Keep tensors."""
        self._look()
        super().save(run, name, tensors)

    def artifact(self, run: Any, need: str, name: str) -> dict[str, torch.Tensor]:
        """Tensors of a needed run, on the device; a GPU that is pretended is a name to torch alone."""
        device, self.device = self.device, torch.device(self.device.type)
        try:
            found = super().artifact(run, need, name)
        finally:
            self.device = device
        self._put(found, "gpu")
        return found

    def data(self, name: str) -> "Dataset":
        """A registered data set, or a made one in its shape; it lies on the host."""
        with self.memory.making("host") if isinstance(self.memory, PretendedGpu) else nullcontext():
            found = self._had_or_made(name)
        self._put([(split.inputs, split.targets) for split in (found.train, found.test)], "host")
        return found

    def _had_or_made(self, name: str) -> "Dataset":
        try:
            return super().data(name)
        except DataUnavailable:
            from common.workflow.made_data import made_dataset

            found = made_dataset(name)
            if found is None:
                raise
            self.made.append(name)
            return found

    def _put(self, state: Any, place: Place) -> None:
        """State where tensors lie, where a GPU is pretended."""
        if isinstance(self.memory, PretendedGpu):
            for leaf in tree_leaves(state):
                self.memory.put(leaf, place)

    def _look(self) -> None:
        if self.memory is not None:
            self.lasting = max(self.lasting, self.memory.live)


def interrupt(clock: Clock) -> None:
    """Have a checkpoint written and the call end there."""
    clock.stop_requested = True


def leave(clock: Clock) -> None:
    """End the call as it stands."""
    raise Enough
