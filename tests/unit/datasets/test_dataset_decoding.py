"""Whatever form a source holds, the decoded bytes are the same; hostile or damaged files are refused."""

import gzip
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from common.datasets import Registry, load
from common.datasets.decoding import Undecodable, cifar_png, cifar_python, plain
from tests.unit.datasets.dataset_files import described, tar_gz, write_all

PER_BATCH = 2
TRAIN = [f"data_batch_{number}" for number in range(1, 6)]


@pytest.fixture
def batches() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Labels [2] and pixels [2, 3072] of six small batches."""
    random = np.random.default_rng(1)
    return {
        name: (random.integers(0, 10, PER_BATCH), random.integers(0, 256, (PER_BATCH, 3072), dtype=np.uint8))
        for name in [*TRAIN, "test_batch"]
    }


def binary(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    return b"".join(bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True))


def pickled_by_python_2(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    """The opcodes of the official batches: byte strings, and arrays by numpy's reconstruction."""
    raw = pixels.tobytes()
    shape = b"K" + bytes([len(pixels)]) + b"M" + struct.pack("<H", 3072) + b"\x86"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01" + shape + dtype + b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
    )
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x06labels" + numbers + b"U\x04data" + array + b"u."


def pickled_by_python_3(labels: np.ndarray, pixels: np.ndarray) -> bytes:
    return pickle.dumps({b"labels": labels.tolist(), b"data": pixels}, protocol=2)


def sheets(folder: Path, batches: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    from PIL import Image

    for name, (_, pixels) in batches.items():
        Image.fromarray(pixels.reshape(-1, 3, 1024).transpose(0, 2, 1)).save(folder / f"{name}.png")
    labels = [int(label) for name in TRAIN for label in batches[name][0]]
    (folder / "train_lables.json").write_text(json.dumps(labels))
    (folder / "test_lables.json").write_text(json.dumps(batches["test_batch"][0].tolist()))


def lay_out(form: str, mirror: Path, batches: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Write the batches into `mirror` in one of the forms that people have."""
    binaries = {f"{name}.bin": binary(*batch) for name, batch in batches.items()}
    pickles = {f"cifar-10-batches-py/{name}": pickled_by_python_2(*batch) for name, batch in batches.items()}
    folder = mirror / "cifar10"
    folder.mkdir()
    if form == "decoded files":
        write_all(folder, binaries)
    elif form == "compressed files":
        write_all(folder, {f"{name}.gz": gzip.compress(data) for name, data in binaries.items()})
    elif form == "python batches":
        write_all(folder, pickles)
    elif form == "python batches, re-pickled":
        write_all(folder, {name: pickled_by_python_3(*batch) for name, batch in batches.items()})
    elif form == "python archive":
        tar_gz(folder / "cifar-10-python.tar.gz", pickles)
    elif form == "binary archive":
        tar_gz(folder / "cifar-10-binary.tar.gz", {f"x/{name}": data for name, data in binaries.items()})
    elif form == "archive at the top":
        tar_gz(mirror / "cifar-10-python.tar.gz", pickles)
    else:
        sheets(folder, batches)


FORMS = ["decoded files", "compressed files", "python batches", "python batches, re-pickled", "python archive",
         "binary archive", "archive at the top", "png sheets"]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_cifar_give_the_same_bytes(
    cache: Path,
    mirror: Path,
    registry: Callable[..., Registry],
    batches: dict[str, tuple[np.ndarray, np.ndarray]],
    form: str,
) -> None:
    lay_out(form, mirror, batches)
    binaries = {f"{name}.bin": binary(*batch) for name, batch in batches.items()}
    small = registry(
        {"kind": "mirror", "folders": ["cifar10", "cifar-10-python.tar.gz"]},
        format="cifar_batches",
        classes=10,
        files=described(binaries),
        decoders=["plain", "cifar_python", "cifar_png"],
        archives=["cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"],
        splits={"train": [f"{name}.bin" for name in TRAIN], "test": ["test_batch.bin"]},
    )
    loaded = load("digits", small)
    labels = np.concatenate([batches[name][0] for name in TRAIN])
    pixels = np.concatenate([batches[name][1] for name in TRAIN])
    assert loaded.train.targets.tolist() == labels.tolist()
    assert torch.equal(loaded.train.inputs, torch.from_numpy(pixels.reshape(-1, 3, 32, 32)))
    assert torch.equal(loaded.test.inputs[1].flatten(), torch.from_numpy(batches["test_batch"][1][1]))


def test_a_pickle_that_calls_code_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "data_batch_1").write_bytes(b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR.")
    with pytest.raises(Undecodable, match=r"data_batch_1 is not a batch .*os\.system|posix\.system"):
        list(cifar_python(tmp_path, "data_batch_1.bin"))
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x02}q\x00.", pickle.dumps([1, 2]), b"not a pickle"])
def test_a_damaged_python_batch_is_one_phrase(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(Undecodable, match="data_batch_1 is not a batch of the Python archive"):
        list(cifar_python(tmp_path, "data_batch_1.bin"))


def test_a_cut_gzip_file_is_one_phrase(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(range(256)) * 40)[:-20])
    with pytest.raises(Undecodable, match=r"x\.gz is not a whole gzip file"):
        list(plain(tmp_path, "x"))


def test_damaged_sheets_and_missing_labels_are_one_phrase(
    tmp_path: Path, batches: dict[str, tuple[np.ndarray, np.ndarray]]
) -> None:
    sheets(tmp_path, batches)
    (tmp_path / "test_lables.json").unlink()
    with pytest.raises(Undecodable, match=r"test_batch\.png or its labels cannot be read"):
        list(cifar_png(tmp_path, "test_batch.bin"))
    whole = (tmp_path / "data_batch_1.png").read_bytes()
    (tmp_path / "data_batch_1.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Undecodable, match=r"data_batch_1\.png or its labels cannot be read"):
        list(cifar_png(tmp_path, "data_batch_1.bin"))
