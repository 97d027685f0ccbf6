"""Data of the right shape in the place of sets that cannot be had: for a rehearsal, never for a result."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import common.datasets
from common.errors import DataUnavailable

if TYPE_CHECKING:
    from common.datasets import Dataset

_SHAPES: dict[str, tuple[int, int, tuple[int, ...], int]] = {
    "tiny_imagenet": (100_000, 10_000, (3, 64, 64), 200),
    "tiny_imagenet_100": (20_000, 10_000, (3, 64, 64), 200),
    "cifar100": (50_000, 10_000, (3, 32, 32), 100),
    "cifar10": (50_000, 10_000, (3, 32, 32), 10),
    "mnist": (60_000, 10_000, (1, 28, 28), 10),
    "fashion_mnist": (60_000, 10_000, (1, 28, 28), 10),
    "mrpc": (4_076, 1_725, (435,), 2),
    "sst2": (67_349, 872, (267,), 2),
}
"""Training examples, test examples, the shape of one (an image, or the bytes of a text), classes."""
_GRAPHS = {"imdb_binary": (1_000, 20, 2, 136), "imdb_multi": (1_500, 13, 3, 89), "collab": (5_000, 74, 3, 492)}
"""Graphs, their nodes on average, classes, nodes of the largest graph."""


@functools.lru_cache(maxsize=1)
def made_dataset(name: str) -> "Dataset | None":
    """Random images or words in the shape of a registered data set; None where its shape is not known here."""
    from common.datasets import Dataset, Split, entry

    if name not in _SHAPES:
        return None
    train, test, shape, classes = _SHAPES[name]
    source, make = torch.Generator().manual_seed(0), _images if len(shape) == 3 else _texts
    splits = {
        label: Split(f"{name}/{label}", make(count, shape, source), torch.arange(count) % classes)
        for label, count in (("train", train), ("test", test))
    }
    return Dataset(name, entry(name).title, classes, entry(name).digest, **splits)


def _images(count: int, shape: tuple[int, ...], source: torch.Generator) -> torch.Tensor:
    return torch.randint(256, (count, *shape), dtype=torch.uint8, generator=source)


def _texts(count: int, shape: tuple[int, ...], source: torch.Generator) -> torch.Tensor:
    """Words of small letters with spaces and, in the middle, the tab that parts a pair; each row is filled."""
    letters = torch.randint(97, 123, (count, *shape), dtype=torch.uint8, generator=source)
    letters[torch.rand(letters.shape, generator=source) < 1 / 6] = 32
    letters[:, shape[0] // 2] = 9
    return letters


def _graphs(name: str, folder: Path) -> None:
    """Random trees with up to as many edges again, fewer than real ones have."""
    from common.datasets import entry
    from common.datasets.canonical_graphs import packed

    graphs, mean, classes, largest = _GRAPHS[name]
    source = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, 2 * mean - 2, (graphs,), generator=source)
    sizes[0] = largest
    rows = []
    for number, size in enumerate(sizes.tolist()):
        places = torch.arange(1, size)
        trees = [torch.stack([(torch.rand(size - 1, generator=source) * places).long(), places], 1) for _ in range(2)]
        edges = torch.cat(trees).unique(dim=0).numpy().astype("<u2")
        rows.append((number % classes, size, len(edges), bytes(2 * size), edges.tobytes()))
    (folder / entry(name).files[0].name).write_bytes(packed(rows))


def _resnet34(folder: Path) -> None:
    from common.models.imagenet_resnet import resnet34, resnet34_weights

    torch.save(resnet34_weights(resnet34()), folder / "resnet34-b627a593.pth")


def _bert_base(folder: Path) -> None:
    from safetensors.torch import save_file

    from common.models.bert import BERT_BASE, bert, bert_weights

    save_file(bert_weights(bert(BERT_BASE)), folder / "model.safetensors")
    words = ["[PAD]", *(f"[unused{place}]" for place in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [chr(letter) for letter in range(33, 127)] + [f"##{chr(letter)}" for letter in range(33, 127)]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(words)) + "\n")


_FILES: Mapping[str, Callable[[Path], None]] = {
    "resnet34_imagenet": _resnet34,
    "bert_base_uncased": _bert_base,
    **{name: functools.partial(_graphs, name) for name in _GRAPHS},
}


def files_or_made(folder: Path, made: list[str]) -> Callable[..., dict[str, Path]]:
    """`common.datasets.files` that makes weights and graphs in a folder where they cannot be had; notes the name."""
    real = common.datasets.files

    def files(name: str, *arguments: Any, **options: Any) -> dict[str, Path]:
        try:
            return real(name, *arguments, **options)
        except DataUnavailable:
            if name not in _FILES:
                raise
            made.append(name)
            place = folder / name
            if not place.is_dir():
                place.mkdir(parents=True)
                _FILES[name](place)
            return {path.name: path for path in place.iterdir()}

    return files
