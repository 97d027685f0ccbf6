"""Data that do not fit into memory: a loader that is passed over anew whenever all examples are needed.

The first pass counts the examples and keeps a checksum of each; every later one is compared with it, so that all
passes see the same examples in the same order. A pass begins with the same seeds of torch, of `random` and of NumPy
(where it is in use), which also makes a shuffling sampler and random augmentation repeat themselves, in this process
and in the workers of a `torch.utils.data.DataLoader`. The caller's own generators are left as they were.
"""

import ctypes
import random
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from common.hessian.chunks import (
    FEW,
    Chunk,
    Chunks,
    Data,
    Inputs,
    check_lengths,
    cut,
    is_batch,
    map_inputs,
    pair_of,
    take,
    tensors_of,
)


class Streamed(Data):
    """A loader as data of a `Problem`, read again in every pass instead of kept.

    Memory holds two batches, the one in use and the one being read (and what the loader fetches ahead), and recorded
    graphs up to an operator's `memory_limit`.

    Args:
        loader: gives batches of inputs and targets, as a `Problem` takes them, whenever it is iterated, the same ones
            each time.
        seed: with which every pass begins.

    Raises:
        ValueError: what can be iterated only once, or is no loader.

    Example:
        >>> from common.hessian import Problem
        >>> data = torch.utils.data.TensorDataset(torch.ones(5, 2), torch.ones(5, 1))
        >>> loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True)
        >>> Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), Streamed(loader)).count
        5
    """

    def __init__(self, loader: Iterable[Any], *, seed: int = 0) -> None:
        if is_batch(loader):
            raise ValueError("Inputs and targets were given to be streamed, expected a loader of batches of them.")
        if isinstance(loader, Iterator):
            raise ValueError(f"A {type(loader).__name__} can be passed over only once: give what can be iterated anew.")
        self.loader, self.seed = loader, seed

    def chunks_of(self, size: int, device: torch.device) -> "StreamedChunks":
        """In chunks of at most `size` examples, each within one batch. Reads all data once and a batch again.

        Raises:
            ValueError: no example, or the first batch is another one when it is read again.
        """
        return StreamedChunks(self.loader, size, device, self.seed)


class StreamedChunks(Chunks):
    """Chunks that are read again in every pass, and compared with those of the first."""

    kept = False

    def __init__(self, loader: Iterable[Any], size: int, device: torch.device, seed: int) -> None:
        self._loader, self._size, self._device, self._seed = loader, size, device, seed
        self._batches: list[int] = []  # lengths
        self._sums = array("I"), array("I")  # of inputs and targets of each example
        self._passes = 1
        self.lengths = []
        for inputs, targets in self._read():
            check_lengths(inputs, targets)
            if not self._batches and len(targets):
                few = slice(0, FEW)
                own = map_inputs(take(inputs, few), lambda tensor: tensor.clone().to(device))
                self.first = Chunk(0, own, targets[few].clone().to(device))
            self._batches.append(len(targets))
            self.lengths += [min(size, len(targets) - start) for start in range(0, len(targets), size)]
            for sums, of in zip(self._sums, (inputs, targets), strict=True):
                sums.extend(checksums(of, len(targets)))
            del inputs, targets
        if not self.lengths:
            raise ValueError("The data hold no example.")
        next(iter(self))

    def __iter__(self) -> Iterator[Chunk]:
        self._passes += 1
        number = index = start = 0
        for inputs, targets in self._read():
            self._compare(number, start, inputs, targets)
            yield from cut(inputs, targets, self._size, self._device, index)
            index += -(-len(targets) // self._size)
            start += len(targets)
            number += 1
            del inputs, targets  # before the next batch is read
        if number < len(self._batches):
            raise self._differs(f"ended after {number} batches, the first after {len(self._batches)}")

    def _compare(self, number: int, start: int, inputs: Inputs, targets: torch.Tensor) -> None:
        count = len(targets)
        if number >= len(self._batches):
            raise self._differs(f"goes on after {number} batches, the first ended there")
        if count != self._batches[number]:
            raise self._differs(f"has {count} examples in batch {number}, the first had {self._batches[number]}")
        of_inputs, of_targets = checksums(inputs, count), checksums(targets, count)
        place = _first_difference(of_inputs, self._sums[0][start : start + count])
        if place is not None:
            if of_inputs[place] in self._sums[0]:
                raise self._differs(f"has another example at place {start + place}: the order must not change")
            raise self._differs(f"has other inputs of example {start + place}: random augmentation must repeat itself")
        place = _first_difference(of_targets, self._sums[1][start : start + count])
        if place is not None:
            raise self._differs(f"has another target of example {start + place}")

    def _differs(self, what: str) -> ValueError:
        return ValueError(f"The loader does not repeat itself: pass {self._passes} {what}.")

    def _read(self) -> Iterator[tuple[Inputs, torch.Tensor]]:
        seeds = _Seeds(self._seed)
        with seeds.active():
            batches = iter(self._loader)
        while True:
            with seeds.active():
                batch = next(batches, None)
            if batch is None:
                return
            yield pair_of(batch)
            del batch


class _Seeds:
    """Global random generators as a loader sees them: begun from a seed, going on while it reads."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states: tuple[Any, ...] | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within, the loader's; afterwards, the caller's again."""
        numpy = sys.modules.get("numpy")
        before = self._now(numpy)
        if self._states is None:
            torch.default_generator.manual_seed(self._seed)
            random.seed(self._seed)
            if numpy is not None:
                numpy.random.seed(self._seed % 2**32)
        else:
            self._set(self._states, numpy)
        try:
            yield
        finally:
            self._states = self._now(numpy)
            self._set(before, numpy)

    @staticmethod
    def _now(numpy: Any) -> tuple[Any, ...]:
        of_numpy = None if numpy is None else numpy.random.get_state()
        return torch.default_generator.get_state(), random.getstate(), of_numpy

    @staticmethod
    def _set(states: tuple[Any, ...], numpy: Any) -> None:
        torch.default_generator.set_state(states[0])
        random.setstate(states[1])
        if numpy is not None and states[2] is not None:
            numpy.random.set_state(states[2])


def _first_difference(new: Sequence[int], old: Sequence[int]) -> int | None:
    return next((place for place, (one, other) in enumerate(zip(new, old, strict=True)) if one != other), None)


def checksums(inputs: Inputs, count: int) -> list[int]:
    """CRC-32 of the bytes of each example [count]."""
    found = [0] * count
    for tensor in tensors_of(inputs):
        plain = tensor.detach().cpu().contiguous()
        width = plain.nbytes // count if count else 0
        whole = memoryview((ctypes.c_ubyte * plain.nbytes).from_address(plain.data_ptr())) if plain.nbytes else b""
        for place in range(count):
            found[place] = zlib.crc32(whole[place * width : (place + 1) * width], found[place])
    return found
