"""CIFAR-100 and Tiny ImageNet, from whatever form a source has to one order of rows that no source has to keep.

Rows are sorted by class and, within a class, by their bytes (CIFAR-100) or by the number in the file's name (Tiny
ImageNet), so that every source gives the same bytes. Draw subsets at random: neighbours are of one class.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common.datasets.decoding import (
    DAMAGE,
    Candidate,
    Undecodable,
    decoded,
    find,
    python_batch,
    safetensors_bytes,
    split_of,
)

if TYPE_CHECKING:  # imported where it is used, so that looking at the registry stays quick
    import numpy as np

TINY_SIDE = 64
TINY_TRAINING = 100
"""Images of each class that the registry's part of Tiny ImageNet holds: those with the numbers 0 to 99."""


def cifar100_python(folder: Path, name: str) -> Iterator[Candidate]:
    """The official Python archive: `train` and `test`, pickled dictionaries of `data` [n, 3072] and `fine_labels`."""
    import numpy as np

    def read(path: Path) -> bytes:
        batch = python_batch(path)
        return _sorted_rows(np.asarray(batch[b"fine_labels"]), np.asarray(batch[b"data"]))

    yield from decoded(find(folder, split_of(name)), read, "a batch of the Python archive")


def cifar100_differences(folder: Path, name: str) -> Iterator[Candidate]:
    """`cifar100_<split>.npz`: `fine_labels` [n] and `planes` uint8 [3, n, 32, 32].

    The planes are differences along both axes modulo 256, red and blue after green was taken off them.
    """
    import numpy as np

    def read(path: Path) -> bytes:
        with np.load(path, allow_pickle=False) as stored:
            planes, labels = stored["planes"], stored["fine_labels"]
        colours = np.cumsum(np.cumsum(planes, 2, dtype=np.uint8), 3, dtype=np.uint8)
        colours[0] += colours[1]
        colours[2] += colours[1]
        return _sorted_rows(labels, colours.transpose(1, 0, 2, 3).reshape(len(labels), -1))

    yield from decoded(find(folder, f"{Path(name).stem}.npz"), read, "a CIFAR-100 file of differences")


def _sorted_rows(labels: "np.ndarray", pixels: "np.ndarray") -> bytes:
    """Rows `label byte, red, green, blue bytes`, sorted as bytes."""
    import numpy as np

    if pixels.shape != (len(labels), 3072) or pixels.dtype != np.uint8 or labels.min() < 0 or labels.max() > 99:
        raise ValueError(f"{len(labels)} labels do not fit images of shape {pixels.shape}")
    rows = np.column_stack([labels.astype(np.uint8), pixels])
    return b"".join(sorted(row.tobytes() for row in rows))


def tiny_imagenet(folder: Path, name: str) -> Iterator[Candidate]:
    """JPEG files `<class>_<number>.JPEG` (training) or `val_<number>.JPEG` with `val_annotations.txt` (test).

    Gives `inputs` uint8 [n, 3, 64, 64] and `targets`, the place of the class among all sorted names. Greyscale files
    become colours of equal channels.
    """
    try:
        files, targets = _training(folder) if "train" in name else _validation(folder)
        if files:
            yield files[0].parent.name, _as_safetensors(files, targets)
    except DAMAGE as error:
        raise Undecodable(f"the images of {name} cannot be read ({error})") from error


def _classes(folder: Path) -> list[str]:
    listed = find(folder, "wnids.txt")
    return sorted(listed[0].read_text().split()) if listed else []


def _training(folder: Path) -> tuple[list[Path], list[int]]:
    known = {path.name: path for path in folder.rglob("n*_*.JPEG")}
    files, targets = [], []
    for target, kind in enumerate(_classes(folder) if known else []):
        files += [known[f"{kind}_{number}.JPEG"] for number in range(TINY_TRAINING)]
        targets += [target] * TINY_TRAINING
    return files, targets


def _validation(folder: Path) -> tuple[list[Path], list[int]]:
    annotations, classes = find(folder, "val_annotations.txt"), _classes(folder)
    if not annotations:
        return [], []
    known = {path.name: path for path in folder.rglob("val_*.JPEG")}
    kinds = dict(line.split("\t")[:2] for line in annotations[0].read_text().splitlines())
    names = [f"val_{number}.JPEG" for number in range(len(kinds))]
    return [known[name] for name in names], [classes.index(kinds[name]) for name in names]


def _as_safetensors(files: Sequence[Path], targets: Sequence[int]) -> bytes:
    """The images as one safetensors file."""
    import numpy as np
    from PIL import Image

    inputs = np.empty((len(files), 3, TINY_SIDE, TINY_SIDE), dtype=np.uint8)
    for place, path in enumerate(files):
        with Image.open(path) as image:
            inputs[place] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    return safetensors_bytes(inputs, np.asarray(targets))
