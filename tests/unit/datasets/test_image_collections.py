"""CIFAR-100 and Tiny ImageNet: the same bytes whatever form and order a source has; damaged files are refused."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from common.datasets import Registry, digest, load, load_registry
from common.datasets import image_collections as collections
from common.datasets.decoding import Undecodable
from common.errors import DataUnavailable
from tests.unit.datasets.dataset_files import described, tar_gz, write_all

KINDS = ("n002", "n001")


def cifar(split: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(len(split))
    return random.integers(0, 100, 12), random.integers(0, 256, (12, 3072), dtype=np.uint8)


def pickled(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    coarse = (labels // 5).tolist()
    return pickle.dumps({b"fine_labels": labels.tolist(), b"coarse_labels": coarse, b"data": pixels}, protocol=2)


def differences(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    """The mirror's form, written as its description says."""
    planes = pixels.reshape(-1, 3, 32, 32).transpose(1, 0, 2, 3).copy()
    planes[0] -= planes[1]
    planes[2] -= planes[1]
    for axis in (3, 2):
        planes = np.diff(planes, axis=axis, prepend=np.zeros_like(np.take(planes, [0], axis)))
    stream = io.BytesIO()
    np.savez(stream, planes=planes.astype(np.uint8), fine_labels=labels.astype(np.uint8))
    return stream.getvalue()


def rows(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    return b"".join(sorted(bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True)))


@pytest.mark.parametrize("form", ["differences", "python batches", "python archive"])
def test_all_forms_of_cifar_100_give_the_same_rows(cache: Path, mirror: Path, form: str) -> None:
    splits = {split: cifar(split) for split in ("train", "test")}
    if form == "differences":
        write_all(mirror / "cifar100", {f"cifar100_{split}.npz": differences(*splits[split]) for split in splits})
    elif form == "python batches":
        write_all(mirror / "cifar100", {split: pickled(*splits[split]) for split in splits})
    else:
        (mirror / "cifar100").mkdir()
        content = {f"cifar-100-python/{split}": pickled(*splits[split]) for split in splits}
        tar_gz(mirror / "cifar100" / "cifar-100-python.tar.gz", content)
    entry: dict[str, Any] = load_registry().entry("cifar100").model_dump()
    files = {f"cifar100_{split}.bin": rows(*splits[split]) for split in splits}
    loaded = load("small", Registry.model_validate({"small": {**entry, "files": described(files)}}))
    labels, pixels = splits["train"]
    assert loaded.train.targets.tolist() == sorted(labels.tolist())
    of_image = {row.tobytes(): int(label) for label, row in zip(labels, pixels, strict=True)}
    for image, target in zip(loaded.train.inputs, loaded.train.targets, strict=True):
        assert of_image[image.numpy().tobytes()] == int(target)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK",
        differences(*cifar("train"))[:-9],
        differences(*cifar("train")).replace(b"\x93NUMPY", b"\x93NUMPI"),
        pickled(np.array([100]), np.zeros((1, 3072), np.uint8)),
    ],
    ids=["empty", "begun", "cut", "changed", "another class"],
)
def test_a_damaged_cifar_100_is_refused(tmp_path: Path, content: bytes) -> None:
    write_all(tmp_path, {"train": content, "cifar100_train.npz": content})
    for decoder in (collections.cifar100_python, collections.cifar100_differences):
        with pytest.raises(Undecodable):
            list(decoder(tmp_path, "cifar100_train.bin"))


def tiny(archives: Path, official: bool) -> dict[str, np.ndarray]:
    """Archives in the official or in the mirror's layout; the pixels by file."""
    from PIL import Image

    random = np.random.default_rng(0)
    content: dict[str, bytes] = {"wnids.txt": "\n".join(KINDS).encode()}
    known: dict[str, np.ndarray] = {}

    def add(path: str, grey: bool = False) -> None:
        shape = (64, 64) if grey else (64, 64, 3)
        stream = io.BytesIO()
        Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8)).save(stream, "JPEG")
        content[path] = stream.getvalue()
        with Image.open(io.BytesIO(content[path])) as image:
            known[Path(path).name] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)

    for kind in KINDS:
        for number in (2, 0, 1):
            add(f"train/{kind}/{'images/' if official else ''}{kind}_{number}.JPEG", grey=number == 1)
    for number in range(2):
        add(f"val/{'images/' if official else ''}val_{number}.JPEG")
    annotations = "".join(f"val_{number}.JPEG\t{KINDS[number]}\t0\t0\t9\t9\n" for number in range(2))
    content[f"{'val/' if official else ''}val_annotations.txt"] = annotations.encode()
    archives.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archives, "w") as archive:
        for name, data in content.items():
            archive.writestr(f"tiny-imagenet-200/{name}" if official else name, data)
    return known


@pytest.mark.parametrize("official", [True, False])
def test_both_layouts_of_tiny_imagenet_give_the_numbered_images_of_each_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, official: bool
) -> None:
    from safetensors.torch import load as load_tensors

    monkeypatch.setattr(collections, "TINY_TRAINING", 2)
    known = tiny(tmp_path / "a" / "x.zip", official)
    with zipfile.ZipFile(tmp_path / "a" / "x.zip") as archive:
        archive.extractall(tmp_path / "b")
    found = {}
    for split in ("train", "test"):
        ((_, content),) = collections.tiny_imagenet(tmp_path / "b", f"tiny_imagenet_100_{split}.safetensors")
        found[split] = load_tensors(content)
    assert found["train"]["targets"].tolist() == [0, 0, 1, 1]
    assert found["test"]["targets"].tolist() == [1, 0]
    assert found["train"]["inputs"].dtype == torch.uint8
    for place, name in enumerate(("n001_0", "n001_1", "n002_0", "n002_1")):
        assert np.array_equal(found["train"]["inputs"][place].numpy(), known[f"{name}.JPEG"])
    assert np.array_equal(found["test"]["inputs"][1].numpy(), known["val_1.JPEG"])


def test_a_class_with_too_few_images_is_refused(tmp_path: Path) -> None:
    tiny(tmp_path / "x.zip", official=False)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        archive.extractall(tmp_path)
    with pytest.raises(Undecodable, match="cannot be read"):
        list(collections.tiny_imagenet(tmp_path, "tiny_imagenet_100_train.safetensors"))


def test_a_data_set_that_no_source_can_deliver_says_how_to_come_by_it(cache: Path) -> None:
    assert digest("imagenet32") is None
    with pytest.raises(DataUnavailable, match=r"imagenet32 is not available .*image-net\.org"):
        load("imagenet32")


def test_an_entry_needs_files_or_instructions() -> None:
    entry = {**load_registry().entry("imagenet32").model_dump(), "instructions": ""}
    with pytest.raises(ValueError, match="instructions how to come by"):
        Registry.model_validate({"nothing": entry})
