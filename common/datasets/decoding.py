"""From what a source holds to the decoded file that the registry names: all sources give the same bytes.

A decoder takes the folder that a source delivered and the name of a decoded file, and yields candidates
`(where it was found, its bytes)`, each at most once; the caller keeps the first with the right digest.
"""

import csv
import gzip
import io
import json
import pickle
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported where it is used, so that looking at the registry stays quick
    import numpy as np

Candidate = tuple[str, bytes]


DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    EOFError,
    AttributeError,
    ImportError,
    ArithmeticError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
)


class Undecodable(Exception):
    """A raw file that is damaged or not what its name says."""


def find(folder: Path, name: str) -> list[Path]:
    """Files called `name` at any depth below `folder`, the shallowest first."""
    direct = folder / name
    if direct.is_file():
        return [direct]
    below = (path for path in folder.rglob(name) if path.is_file())
    return sorted(below, key=lambda path: (len(path.parts), path))


def split_of(name: str) -> str:
    """Which split a decoded file holds: "train" for "mrpc_train.safetensors"."""
    return Path(name).stem.rpartition("_")[2]


def decoded(paths: Iterable[Path], read: Callable[[Path], bytes], what: str) -> Iterator[Candidate]:
    """Each of `paths` as `read` decodes it.

    Raises:
        Undecodable: a file is damaged; the sentence says that it is not `what`.
    """
    for path in paths:
        try:
            yield path.name, read(path)
        except DAMAGE as error:
            raise Undecodable(f"{path.name} is not {what} ({error})") from error


def plain(folder: Path, name: str) -> Iterator[Candidate]:
    """The file itself, or the file compressed by gzip."""
    for path in find(folder, name):
        yield path.name, path.read_bytes()
    packed = find(folder, f"{name}.gz")
    yield from decoded(packed, lambda path: gzip.decompress(path.read_bytes()), "a whole gzip file")


def _as_batch(labels: Any, pixels: "np.ndarray") -> bytes:
    """CIFAR's binary form: a label byte, then 1,024 red, 1,024 green and 1,024 blue bytes, an image a row.

    `labels` has n entries, `pixels` is uint8 [n, 3072] with planar colours.
    """
    import numpy as np

    column = np.asarray(labels)
    if column.shape != pixels.shape[:1] or pixels.dtype != np.uint8 or (column < 0).any() or (column > 255).any():
        raise Undecodable(f"{column.shape[0]} labels do not fit images of shape {pixels.shape}")
    return np.column_stack([column.astype(np.uint8), pixels]).tobytes()


_ARRAY_PARTS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _ArraysOnly(pickle.Unpickler):
    """Unpickles containers, numbers, strings and numpy arrays, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ARRAY_PARTS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def python_batch(path: Path) -> Any:
    """The pickled dictionary of a batch of the official Python archives."""
    return _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()


def cifar_python(folder: Path, name: str) -> Iterator[Candidate]:
    """A batch of the official Python archive: a pickled dictionary of `data` (uint8 [n, 3072]) and `labels`."""
    import numpy as np

    def read(path: Path) -> bytes:
        batch = python_batch(path)
        return _as_batch(batch[b"labels"], np.asarray(batch[b"data"]).reshape(-1, 3072))

    yield from decoded(find(folder, Path(name).stem), read, "a batch of the Python archive")


def cifar_png(folder: Path, name: str) -> Iterator[Candidate]:
    """A batch as one lossless RGB sheet, 1,024 pixels wide, one image a row; labels are a JSON list."""
    import numpy as np

    stem = Path(name).stem
    for path in find(folder, f"{stem}.png"):
        try:
            from PIL import Image
        except ImportError as error:
            raise Undecodable(f"reading {path.name} needs Pillow (pip install pillow)") from error
        try:
            with Image.open(path) as image:
                if image.format != "PNG" or image.mode != "RGB" or image.width != 1024:
                    raise Undecodable(f"{path.name} is not an RGB sheet of 1,024 columns")
                sheet = np.asarray(image)
            planes = np.ascontiguousarray(sheet.transpose(0, 2, 1)).reshape(len(sheet), 3072)
            yield path.name, _as_batch(_sheet_labels(path.parent, stem, len(sheet)), planes)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise Undecodable(f"{path.name} or its labels cannot be read ({error})") from error


def _sheet_labels(folder: Path, stem: str, count: int) -> list[int]:
    """Labels of one sheet; the training list runs over all training sheets, `count` labels each."""
    if not stem.startswith("data_batch_"):
        return list(json.loads((folder / "test_lables.json").read_text()))
    first = (int(stem.removeprefix("data_batch_")) - 1) * count
    return list(json.loads((folder / "train_lables.json").read_text())[first : first + count])


def safetensors_bytes(inputs: "np.ndarray", targets: "np.ndarray") -> bytes:
    """One safetensors file of `inputs` (uint8) and `targets` (int64), the same bytes whatever the library's version."""
    classes = targets.astype("<i8")
    end = classes.nbytes
    header = {
        "targets": {"dtype": "I64", "shape": list(classes.shape), "data_offsets": [0, end]},
        "inputs": {"dtype": "U8", "shape": list(inputs.shape), "data_offsets": [end, end + inputs.nbytes]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + classes.tobytes() + inputs.tobytes()
