"""Processes that measure together: the one place where sums over examples are completed.

Every rank passes over its own examples; `total` makes the sum of all of it, `gathered` joins what there is for each
example, in the order of ranks. Before each exchange the ranks compare what they are about to do, at which weights, and
whether one of them failed: so a call that only some of them make, weights that differ, and an error of one end on all
of them with a sentence, and none waits for ever. All ranks hold the same numbers afterwards, to the bit, so decisions
that follow from them (stopping rules, restarts) are the same.

Parameters are whole on every rank; sharded ones are refused.
"""

import atexit
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn

Value = TypeVar("Value", float, torch.Tensor, list[float], list[torch.Tensor])

_END, _TOTAL, _GATHER, _OBJECTS = range(4)
_CALLS = ("the end of a measurement", "a sum over examples", "values of single examples", "a look at the data")


class RanksApart(RuntimeError):
    """The ranks cannot go on together: one ended or does not answer, or they make different calls."""


class OtherRankFailed(ValueError):
    """What one rank could not compute, told to the others."""


class Ranks:
    """One process alone: its sums are complete as they are.

    Attributes:
        rank, count: which of how many.
    """

    rank = 0
    count = 1

    def total(self, value: Value, state: int = 0) -> Value:
        """The sum over ranks of a number, a tensor or a list of them, equal to the bit on all ranks.

        Args:
            state: a fingerprint of what must be equal on all ranks, such as the weights.
        """
        return value

    def gathered(self, tensor: torch.Tensor, state: int = 0) -> torch.Tensor:
        """The rows of all ranks, in the order of ranks; each may have another number of them."""
        return tensor

    def objects(self, value: Any) -> list[Any]:
        """A small object of each rank, e.g. tensors."""
        return [value]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within: an error of one rank ends it on all of them.

        Raises:
            OtherRankFailed: on the ranks that did not fail, with the sentence of the one that did.
            RanksApart: a rank is gone, or makes other calls.
        """
        yield


ALONE = Ranks()


class ProcessGroup(Ranks):
    """The processes of `torch.distributed`; sums of GPUs go by the default backend, all else by gloo."""

    def __init__(self) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        by_gloo = "cpu:gloo" in str(dist.get_backend_config(dist.group.WORLD))
        self._own = None if by_gloo else dist.new_group(backend="gloo")
        self._made = 0
        self._told: BaseException | None = None

    @property
    def _control(self) -> Any:
        """The group for tensors on the CPU. That of all processes is not held: who holds it at exit is aborted."""
        return dist.group.WORLD if self._own is None else self._own

    def release(self) -> None:
        """At exit: let go of the group."""
        self._own = None

    def total(self, value: Value, state: int = 0) -> Value:
        if isinstance(value, torch.Tensor):
            return self._summed(value, state)
        if isinstance(value, float | int):
            return float(self._summed(torch.tensor([value], dtype=torch.float64), state))
        if not isinstance(value[0], torch.Tensor):
            return self._summed(torch.tensor(value, dtype=torch.float64), state).tolist()
        flat = self._summed(torch.cat([part.reshape(-1) for part in value]), state)
        parts = flat.split([part.numel() for part in value])
        return [part.view_as(own) for part, own in zip(parts, value, strict=True)]

    def _summed(self, tensor: torch.Tensor, state: int) -> torch.Tensor:
        self._agree(_TOTAL, tensor.numel(), state)
        result = tensor.detach().clone()
        self._exchange(lambda: dist.all_reduce(result, group=self._group(result)))
        return result

    def gathered(self, tensor: torch.Tensor, state: int = 0) -> torch.Tensor:
        rows = self._agree(_GATHER, math.prod(tensor.shape[1:]), state, len(tensor))
        padded = tensor.new_zeros(max(rows), *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        parts = [torch.empty_like(padded) for _ in rows]
        self._exchange(lambda: dist.all_gather(parts, padded, group=self._group(padded)))
        return torch.cat([part[:length] for part, length in zip(parts, rows, strict=True)])

    def objects(self, value: Any) -> list[Any]:
        self._agree(_OBJECTS)
        return self._all_objects(value)

    def _all_objects(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.count
        self._exchange(lambda: dist.all_gather_object(found, value, group=self._control))
        return found

    @contextmanager
    def together(self) -> Iterator[None]:
        try:
            yield
        except (RanksApart, OtherRankFailed):
            raise
        except (Exception, SystemExit) as error:
            if error is not self._told:  # by a block within this one
                self._told = error
                self._agree(_END, error=error)
            raise
        self._agree(_END)

    def _agree(
        self, call: int, size: int = 0, state: int = 0, rows: int = 0, error: BaseException | None = None
    ) -> list[int]:
        """Compare with the other ranks what comes next. Returns the `rows` of all."""
        self._made += 1
        own = torch.tensor([self._made, call, size, state, int(error is not None), rows])
        lines = [torch.empty_like(own) for _ in range(self.count)]
        self._exchange(lambda: dist.all_gather(lines, own, group=self._control))
        table = [line.tolist() for line in lines]
        failed = [rank for rank, line in enumerate(table) if line[4]]
        if failed:
            messages = self._all_objects(None if error is None else f"{error}" or type(error).__name__)
            self._made = max(line[0] for line in table)
            if error is None:
                raise OtherRankFailed(f"Rank {failed[0]}: {messages[failed[0]]}")
            return []
        for rank, line in enumerate(table):
            if line[:3] != table[0][:3]:
                raise RanksApart(
                    f"The ranks went apart: rank 0 came to {_CALLS[table[0][1]]}, rank {rank} to {_CALLS[line[1]]} "
                    f"(calls {table[0][0]} and {line[0]}, sizes {table[0][2]} and {line[2]}); all must call the same."
                )
            if line[3] != table[0][3]:
                raise RanksApart(f"The weights of ranks 0 and {rank} differ: load the same on every rank.")
        return [line[5] for line in table]

    def _group(self, tensor: torch.Tensor) -> Any:
        return self._control if tensor.device.type == "cpu" else dist.group.WORLD

    def _exchange(self, call: Callable[[], object]) -> None:
        try:
            call()
        except RuntimeError as error:
            raise RanksApart(
                f"Rank {self.rank} of {self.count} lost another one, which ended or does not answer "
                f"({type(error).__name__}); the measurement is incomplete."
            ) from error


_started: WeakKeyDictionary[Any, ProcessGroup] = WeakKeyDictionary()


def process_group() -> ProcessGroup:
    """The processes of `torch.distributed`, one object for all that they do together.

    Raises:
        ValueError: `torch.distributed` has not been started.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError(
            "Several ranks need torch.distributed: start the script by torchrun and call "
            "torch.distributed.init_process_group first."
        )
    world = dist.group.WORLD
    if world not in _started:
        _started[world] = made = ProcessGroup()
        atexit.register(made.release)
    return _started[world]


def fingerprint(tensors: list[torch.Tensor]) -> int:
    """A number that differs when a bit of the tensors does (nearly always), whatever the order of summation.

    Example:
        >>> fingerprint([torch.ones(2)]) == fingerprint([torch.ones(2)]) != fingerprint([torch.ones(2) + 1e-6])
        True
    """
    total = 0
    for place, tensor in enumerate(tensors):
        whole = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[tensor.element_size()]
        total += (2 * place + 1) * int(tensor.detach().contiguous().view(whole).sum(dtype=torch.int64))
    return (total + 2**62) % 2**63 - 2**62


def require_whole(model: nn.Module) -> None:
    """
    Raises:
        ValueError: the model exchanges with other ranks itself, or holds only a part of its parameters.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.parallel.DataParallel):
            raise ValueError(
                f"{name or 'model'} ({type(module).__name__}) exchanges with other devices itself: pass its `.module`."
            )
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "device_mesh"):
            raise ValueError(f"Parameter {name!r} is sharded over devices: every rank must hold whole parameters.")
