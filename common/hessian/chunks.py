"""Examples in chunks: inputs that are a tensor, or a tuple or a dict of tensors, with their targets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from common.hessian.ranks import ALONE, Ranks

Inputs = Any
"""A tensor [n, …], or a tuple or a dict of such tensors (called as model(*inputs), model(**inputs))."""
LABELS = "labels"
"""The targets in a batch that is one dict, as `transformers` and `datasets` make them; its other entries are inputs."""
Drawn = TypeVar("Drawn")

FEW = 8
"""Examples at which a network is looked at."""


@dataclass(frozen=True)
class Chunk:
    """Examples that are passed through the model together; `index` counts them over all ranks."""

    index: int
    inputs: Inputs
    targets: torch.Tensor

    def __len__(self) -> int:
        return len(self.targets)


def parts(chunk: Chunk, most: int) -> Iterator[Chunk]:
    """A chunk cut into parts of at most `most` examples."""
    for start in range(0, len(chunk), most):
        some = slice(start, start + most)
        yield Chunk(chunk.index, take(chunk.inputs, some), chunk.targets[some])


class Data:
    """Data that make chunks themselves.

    Attributes:
        ranks: the processes among which the examples are spread.
    """

    ranks: Ranks = ALONE

    def chunks_of(self, size: int, device: torch.device) -> "Chunks":
        """This process's examples in chunks of at most `size`."""
        raise NotImplementedError


class Chunks(Data):
    """The examples of this process, in chunks, to be passed over as often as one likes.

    Attributes:
        lengths: examples of each chunk.
        first: some of the first examples, at which the network is looked at; the same on all ranks.
        kept: whether the examples are held in memory, or read again in every pass.
        before, after: lengths of the chunks that lower and higher ranks hold.
    """

    lengths: list[int]
    first: Chunk
    kept = True
    before: Sequence[int] = ()
    after: Sequence[int] = ()

    def __iter__(self) -> Iterator[Chunk]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.lengths)

    def chunks_of(self, size: int, device: torch.device) -> "Chunks":
        """These, whatever the size."""
        return self

    def versions(self) -> list[int]:
        """Of the tensors that are held, other ones after each write in place; none where they are read again."""
        return []

    def cut(self, most: int) -> "Chunks":
        """The examples of this process, kept, in chunks of at most `most`."""
        shorter = (part for chunk in self for part in parts(chunk, most))
        return KeptChunks([Chunk(index, part.inputs, part.targets) for index, part in enumerate(shorter)])

    @property
    def count(self) -> int:
        """N, over all ranks."""
        return sum(self.before) + sum(self.lengths) + sum(self.after)

    @property
    def own(self) -> slice:
        """The place of this process's examples among all N."""
        return slice(sum(self.before), sum(self.before) + sum(self.lengths))

    def classes(self) -> list[torch.Tensor]:
        """The targets of all N, by chunk, where they are whole numbers; else none."""
        if self.first.targets.is_floating_point():
            return []
        own = [chunk.targets for chunk in self]
        return [targets for of_rank in self.ranks.objects(own) for targets in of_rank]

    def place(self, chunk: Chunk) -> int:
        """Which of this process's chunks it is."""
        return chunk.index - len(self.before)

    def draw(self, chunk: Chunk, function: Callable[[int], Drawn]) -> Drawn:
        """`function(len(chunk))`, a random draw, such that all ranks draw what one process draws for its chunk.

        To be called once a chunk, in order: what belongs to other ranks is drawn and dropped.

        Args:
            function: draws for so many examples, from a generator that is equal on all ranks.
        """
        if self.place(chunk) == 0:
            for length in self.before:
                function(length)
        result = function(len(chunk))
        if self.place(chunk) == len(self) - 1:
            for length in self.after:
                function(length)
        return result


class KeptChunks(Chunks):
    """Chunks that are held in memory."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = list(chunks)
        self.lengths = [len(chunk) for chunk in self._chunks]
        self.first = self._chunks[0]

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks)

    def versions(self) -> list[int]:
        tensors = [tensor for chunk in self._chunks for tensor in (*tensors_of(chunk.inputs), chunk.targets)]
        return [tensor._version for tensor in tensors]


def tensors_of(inputs: Inputs) -> list[torch.Tensor]:
    """The tensor, or those of a tuple, list or dict."""
    return [tensor for _, tensor in _entries(inputs)]


def take(inputs: Inputs, part: slice | torch.Tensor) -> Inputs:
    """These examples of a tensor, a tuple or a dict of tensors."""
    return map_inputs(inputs, lambda tensor: tensor[part])


def map_inputs(inputs: Inputs, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """`function` of the tensor, or of each tensor of a tuple, list or dict."""
    if isinstance(inputs, dict):
        return {key: function(value) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(function(value) for value in inputs)
    return function(inputs)


def is_batch(data: Any) -> bool:
    """Whether the data are one batch as `pair_of` takes it, and not several."""
    return isinstance(data, Mapping) or (
        isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], torch.Tensor)
    )


def pair_of(batch: Any) -> tuple[Inputs, torch.Tensor]:
    """A batch as inputs and targets: such a pair, or a dict with the targets at `LABELS`.

    Raises:
        ValueError: it is neither, or an input is no tensor.
    """
    inputs: Inputs = None
    targets = None
    if isinstance(batch, Mapping) and LABELS in batch:
        inputs, targets = {name: value for name, value in batch.items() if name != LABELS}, batch[LABELS]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        inputs, targets = batch
        inputs = dict(inputs) if isinstance(inputs, Mapping) else inputs
    if not isinstance(targets, torch.Tensor) or not targets.ndim:
        raise ValueError(
            f"Data are inputs and targets, as a tuple or as a dict with the targets at {LABELS!r}, or batches of them, "
            f"of tensors; what was given holds {_told(batch)} where such a batch is expected."
        )
    entries = _entries(inputs)
    if not entries:
        raise ValueError("A batch holds targets without inputs.")
    for place, value in entries:
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"Inputs are tensors; {place} of a batch holds {_told(value)}.")
    return inputs, targets


def _entries(inputs: Any) -> list[tuple[str, Any]]:
    """What inputs consist of, with words for its place."""
    if isinstance(inputs, dict):
        return [(f"entry {name!r}", value) for name, value in inputs.items()]
    if isinstance(inputs, tuple | list):
        return [(f"input {place}", value) for place, value in enumerate(inputs)]
    return [("the input", inputs)]


def _told(batch: Any) -> str:
    if isinstance(batch, tuple | list) and len(batch) == 2 and isinstance(batch[0], torch.Tensor):
        return "a single example (of a data set, to be wrapped in a DataLoader?)"
    if isinstance(batch, torch.Tensor):
        return f"a tensor of shape {tuple(batch.shape)}"
    if isinstance(batch, Mapping):
        return f"a {type(batch).__name__} with the entries {', '.join(map(str, batch)) or '(none)'}"
    return f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, tuple | list) else "")


def check_lengths(inputs: Inputs, targets: torch.Tensor) -> None:
    """
    Raises:
        ValueError: inputs without targets or the other way round.
    """
    count = len(tensors_of(inputs)[0])
    if count != len(targets):
        raise ValueError(f"{count} inputs and {len(targets)} targets: every example needs both.")


def cut(inputs: Inputs, targets: torch.Tensor, size: int, device: torch.device, index: int) -> Iterator[Chunk]:
    """A batch in chunks of at most `size` examples, counted from `index`."""
    for start in range(0, len(targets), size):
        part = slice(start, start + size)
        here = map_inputs(take(inputs, part), lambda tensor: _usable(tensor, device))
        yield Chunk(index, here, _usable(targets[part], device))
        index += 1


def _usable(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device; a copy of one that was made under `torch.inference_mode()`, which takes no derivative."""
    here = tensor.to(device)
    return here.clone() if here.is_inference() else here


def chunks_of(data: Any, size: int, device: torch.device) -> Chunks:
    """Inputs and targets, or batches of them, in chunks of at most `size` examples.

    Args:
        data: a batch as `pair_of` takes it, or several; also what makes chunks itself: `Streamed`, `Distributed`,
            `Divided`, or chunks, which are used again.

    Raises:
        ValueError: neither a batch nor several, inputs without targets or the
            other way round, or no example.
    """
    if isinstance(data, Data):
        return data.chunks_of(size, device)
    chunks: list[Chunk] = []
    for inputs, targets in map(pair_of, [data] if is_batch(data) else data):
        check_lengths(inputs, targets)
        chunks.extend(cut(inputs, targets, size, device, len(chunks)))
    if not chunks:
        raise ValueError("The data hold no example.")
    return KeptChunks(chunks)
