"""Decoded files to tensors, one reader a format. Files are read whole, and checked as they are read."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from common.datasets.registry import DataFile, Entry
from common.datasets.splits import Dataset, Split
from common.datasets.store import Store


class Damaged(Exception):
    """A cached file that is missing or has not the registry's bytes."""


def read_dataset(name: str, store: Store) -> Dataset:
    """Read a cached data set; raises `Damaged` if a file is missing or its sha256 is not the registry's."""
    entry = store.entry
    if entry.splits is None or entry.classes is None:
        raise ValueError(f"{name} has no splits")
    files = {file.name: file for file in entry.files}
    train, test = (
        _read_split(f"{name}/{label}", entry, [(store.path(files[member]), files[member]) for member in members])
        for label, members in (("train", entry.splits.train), ("test", entry.splits.test))
    )
    return Dataset(name, entry.title, entry.classes, entry.digest, train=train, test=test)


def _read_split(name: str, entry: Entry, files: Sequence[tuple[Path, DataFile]]) -> Split:
    contents = (_checked(path, file) for path, file in files)
    try:
        inputs, targets = READERS[entry.format](contents, sum(file.size for _, file in files))
    except ValueError as error:
        raise ValueError(f"{name}: {', '.join(file.name for _, file in files)}: {error}") from error
    classes = entry.classes or 0
    if len(targets) and (int(targets.min()) < 0 or int(targets.max()) >= classes):
        raise ValueError(f"{name}: a target lies outside 0 to {classes - 1}")
    return Split(name, inputs, targets)


def _checked(path: Path, file: DataFile) -> np.ndarray:
    """The bytes of `path` (uint8 [size]), once their digest is right."""
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise Damaged(f"{file.name} cannot be read ({error.strerror})") from error
    if hashlib.sha256(content.data).hexdigest() != file.sha256:
        raise Damaged(f"{file.name} has not its digest")
    return content


def read_idx(contents: Iterator[np.ndarray], size: int) -> tuple[Tensor, Tensor]:
    """Images and labels in the IDX format of MNIST: uint8 [n, 1, height, width] and int64 [n]."""
    images, labels = (_idx_array(content) for content in contents)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(f"images of shape {images.shape} do not fit labels of shape {labels.shape}")
    return torch.from_numpy(images[:, None]), torch.from_numpy(labels.astype(np.int64))


def _idx_array(content: np.ndarray) -> np.ndarray:
    """Header: two zero bytes, type 8 (uint8), the number of axes; then each length as a big-endian uint32."""
    if len(content) < 8 or content[:3].tolist() != [0, 0, 8]:
        raise ValueError("not an IDX file of bytes")
    start = 4 + 4 * int(content[3])
    shape = tuple(int(length) for length in content[4:start].view(">u4"))
    return content[start:].reshape(shape)


def read_cifar_batches(contents: Iterator[np.ndarray], size: int) -> tuple[Tensor, Tensor]:
    """Batches of rows `label byte, 1,024 red, green, blue bytes`: uint8 [n, 3, 32, 32] and int64 [n]."""
    inputs = np.empty((size // 3073, 3072), dtype=np.uint8)
    targets = np.empty(size // 3073, dtype=np.int64)
    start = 0
    for content in contents:  # one at a time: joining them all at once costs three times the memory
        batch = content.reshape(-1, 3073)
        targets[start : start + len(batch)] = batch[:, 0]
        inputs[start : start + len(batch)] = batch[:, 1:]
        start += len(batch)
    return torch.from_numpy(inputs.reshape(-1, 3, 32, 32)), torch.from_numpy(targets)


def read_safetensors(contents: Iterator[np.ndarray], size: int) -> tuple[Tensor, Tensor]:
    """One file with `inputs` (uint8 or float32 [n, …]) and `targets` (int64 [n])."""
    import safetensors.torch

    try:
        tensors = safetensors.torch.load(next(contents).tobytes())
        inputs, targets = tensors["inputs"], tensors["targets"]
    except (safetensors.SafetensorError, KeyError) as error:
        raise ValueError(f"not a safetensors file with 'inputs' and 'targets' ({error})") from error
    if inputs.dtype not in (torch.uint8, torch.float32) or targets.dtype != torch.int64 or targets.dim() != 1:
        raise ValueError(f"inputs are {inputs.dtype} (not uint8, float32) or targets {targets.dtype} (not int64 [n])")
    if len(inputs) != len(targets):
        raise ValueError(f"{len(inputs)} inputs but {len(targets)} targets")
    return inputs, targets


# A reader takes the contents of a split's files (uint8 [bytes]), one after another, and their bytes together.
READERS: dict[str, Callable[[Iterator[np.ndarray], int], tuple[Tensor, Tensor]]] = {
    "idx": read_idx,
    "cifar_batches": read_cifar_batches,
    "safetensors": read_safetensors,
}
