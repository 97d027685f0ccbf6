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

_IMAGES = {"tiny_imagenet": (100_000, 10_000, 64, 200), "tiny_imagenet_100": (20_000, 10_000, 64, 200)}
"""Training images, test images, side, classes."""
_IMAGES |= {"cifar100": (50_000, 10_000, 32, 100), "cifar10": (50_000, 10_000, 32, 10)}


@functools.lru_cache(maxsize=1)
def made_dataset(name: str) -> "Dataset | None":
    """Random images in the shape of a registered data set; None where its shape is not known here."""
    from common.datasets import Dataset, Split, entry

    if name not in _IMAGES:
        return None
    train, test, side, classes = _IMAGES[name]
    source = torch.Generator().manual_seed(0)
    splits = {
        label: Split(
            f"{name}/{label}",
            torch.randint(256, (count, 3, side, side), dtype=torch.uint8, generator=source),
            torch.arange(count) % classes,
        )
        for label, count in (("train", train), ("test", test))
    }
    return Dataset(name, entry(name).title, classes, entry(name).digest, **splits)


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


_FILES: Mapping[str, Callable[[Path], None]] = {"resnet34_imagenet": _resnet34, "bert_base_uncased": _bert_base}


def files_or_made(folder: Path, made: list[str]) -> Callable[..., dict[str, Path]]:
    """`common.datasets.files` that makes random weights in a folder where they cannot be had, and notes their name."""
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
