"""Data that several processes hold, each a part of it, under `torchrun`.

All ranks make the same calls, each passes over its own chunks, and sums are completed over ranks (`ranks.py`); so every
rank gets what one process gets that holds the chunks of all ranks in their order, up to rounding, with the same draws:
what a rank draws for its examples it takes from one stream that is equal on all ranks, the others' share dropped.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from common.hessian.chunks import (
    FEW,
    Chunk,
    Chunks,
    Data,
    Inputs,
    KeptChunks,
    check_lengths,
    chunks_of,
    cut,
    is_batch,
    map_inputs,
    pair_of,
    take,
)
from common.hessian.ranks import Ranks, process_group
from common.hessian.streaming import checksums


class Distributed(Data):
    """Data of a `Problem` of which every rank holds its own share; shares may differ in size.

    Args:
        data: this rank's: inputs and targets, batches of them, or `Streamed`.

    Raises:
        ValueError: `torch.distributed` has not been started.
    """

    def __init__(self, data: Any) -> None:
        self.data, self.ranks = data, process_group()

    def chunks_of(self, size: int, device: torch.device) -> "DistributedChunks":
        """This rank's chunks, counted over all ranks.

        Raises:
            ValueError: a rank holds no example.
        """
        return DistributedChunks(chunks_of(self.data, size, device), self.ranks, device)


class Divided(Distributed):
    """Data of a `Problem` that every rank has whole and takes its share of: chunks in a row, about equally many.

    Chunks, and with them all draws, are those of one process where these are as many as the ranks; fewer are cut to
    N / ranks examples, so that there is one for every rank.

    Args:
        data: inputs and targets, as a tuple or a dict, the same on all ranks.

    Raises:
        ValueError: `torch.distributed` has not been started, or the data are batches (`Distributed` takes a share).
    """

    def __init__(self, data: Any) -> None:
        if not is_batch(data):
            raise ValueError("Only inputs with targets can be divided: give each rank its own batches as Distributed.")
        super().__init__(data)

    def chunks_of(self, size: int, device: torch.device) -> "DistributedChunks":
        inputs, targets = pair_of(self.data)
        check_lengths(inputs, targets)
        rank, ranks, count = self.ranks.rank, self.ranks.count, len(targets)
        if count < ranks:
            raise ValueError(f"{count} examples for {ranks} ranks: each needs one at least.")
        whole = {tuple(line) for line in self.ranks.objects((count, *_digest(inputs, targets)))}
        if len(whole) > 1:
            raise ValueError("The ranks hold different data: to be divided, they must be the same on every rank.")
        if -(-count // size) < ranks:
            size = count // ranks
        number = -(-count // size)
        mine = slice(rank * number // ranks * size, (rank + 1) * number // ranks * size)
        chunks = KeptChunks(list(cut(take(inputs, mine), targets[mine], size, device, 0)))
        return DistributedChunks(chunks, self.ranks, device)


class DistributedChunks(Chunks):
    """A rank's chunks, counted over all ranks."""

    def __init__(self, own: Chunks, ranks: Ranks, device: torch.device) -> None:
        self._own, self.ranks, self.kept, self.lengths = own, ranks, own.kept, own.lengths
        few = slice(0, FEW)
        first = (_plain(take(own.first.inputs, few)), _plain(own.first.targets[few])) if ranks.rank == 0 else None
        found = ranks.objects((self.lengths, first))
        self.before = [length for lengths, _ in found[: ranks.rank] for length in lengths]
        self.after = [length for lengths, _ in found[ranks.rank + 1 :] for length in lengths]
        inputs, targets = found[0][1]
        self.first = Chunk(0, map_inputs(inputs, lambda tensor: tensor.to(device)), targets.to(device))

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in self._own:
            yield replace(chunk, index=chunk.index + len(self.before))


def _digest(inputs: Inputs, targets: torch.Tensor) -> list[int]:
    """Checksums of all inputs and of all targets."""
    return [checksums([torch.tensor(checksums(of, len(targets)))[None]], 1)[0] for of in (inputs, targets)]


def _plain(inputs: Inputs) -> Inputs:
    """Copies on the CPU."""
    return map_inputs(inputs, lambda tensor: tensor.detach().cpu().clone())
