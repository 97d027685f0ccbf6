"""Download data from their official home: `python -m common.datasets.homes torchvision MNIST FOLDER`.

Runs in a process of its own, so that it can be stopped and no library is loaded where it is not needed.
"""

import importlib
import importlib.util
import shutil
import sys
import urllib.request
from pathlib import Path, PurePosixPath


def torchvision(dataset: str, folder: Path) -> None:
    """Have `torchvision.datasets.<dataset>` download and unpack itself below `folder`."""
    make_importable()
    getattr(importlib.import_module("torchvision.datasets"), dataset)(root=str(folder), download=True)


def torch_geometric(collection: str, folder: Path) -> None:
    """Have `torch_geometric.datasets.TUDataset` download and unpack itself below `folder`."""
    importlib.import_module("torch_geometric.datasets").TUDataset(root=str(folder), name=collection)


def web(address: str, folder: Path) -> None:
    """Write what `address` serves into `folder`, under the last part of the address."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        urllib.request.urlopen(address, timeout=60) as answer,
        (folder / PurePosixPath(address).name).open("wb") as out,
    ):
        shutil.copyfileobj(answer, out, 1 << 20)


HOMES = {"torchvision": torchvision, "torch_geometric": torch_geometric, "web": web}


def make_importable() -> bool:
    """Let `import torchvision` work where the wheel is a CUDA build and torch is not; call it before that import.

    Such a wheel's library cannot be loaded, and torchvision then stops at operators that nobody declared. Their
    schemas alone are enough for datasets, transforms and models; detection operators stay unavailable.
    Returns whether they had to be declared.
    """
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or torch.version.cuda is not None or "torchvision" in sys.modules:
        return False
    for library in Path(spec.origin).parent.glob("_C*.so"):
        try:
            torch.ops.load_library(str(library))
            return False
        except OSError:
            continue
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    return True


def main(arguments: list[str]) -> int:
    """Exit 0 if the files are there, 1 with one line on stderr if not."""
    home, what, folder = arguments
    try:
        HOMES[home](what, Path(folder))
    except Exception as error:  # whatever stops a library is the reason to be recorded
        print("error:", " ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
