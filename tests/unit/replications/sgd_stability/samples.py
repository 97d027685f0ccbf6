"""What tests of this paper are made of."""

import copy
from typing import Any

import torch

from common.datasets import Dataset, Split
from common.experiments.seeds import stream_seed
from common.models import FullyConnected
from common.training import FullyConnectedEnsemble


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def regression(sizes: tuple[int, ...], count: int) -> tuple[FullyConnected, torch.Tensor, torch.Tensor]:
    ensemble = FullyConnectedEnsemble.drawn(sizes, [generator()], dtype=torch.float64)
    source = generator(1)
    inputs = torch.randn(count, sizes[0], generator=source, dtype=torch.float64)
    return ensemble.module(0), inputs, torch.randn(count, sizes[-1], generator=source, dtype=torch.float64)


def digits(train: int = 60, test: int = 30) -> Dataset:
    generator = torch.Generator().manual_seed(0)

    def split(name: str, count: int) -> Split:
        images = torch.randint(0, 256, (count, 1, 8, 8), generator=generator, dtype=torch.uint8)
        return Split(f"digits/{name}", images, torch.randint(0, 10, (count,), generator=generator))

    return Dataset("digits", "random images", 10, "none", split("train", train), split("test", test))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


class Stop(Exception):
    """Ends a run as a kill would."""


class Context:
    """Records, data and checkpoints in memory; raises Stop at the checkpoint `stop_at`."""

    device = torch.device("cpu")
    name = "test"

    def __init__(self, saved: tuple[Any, int] | None = None, rows: Any = (), stop_at: int | None = None) -> None:
        self.saved, self.stop_at = saved, stop_at
        self.rows: list[dict[str, Any]] = list(rows)[: saved[1]] if saved else []
        self.states: list[tuple[Any, int]] = []

    def generator(self, run: Any, stream: str) -> torch.Generator:
        return torch.Generator().manual_seed(stream_seed("test", stream, run.seed, {}))

    def data(self, name: str) -> Dataset:
        source = torch.Generator().manual_seed(0)
        images = torch.randint(0, 256, (60, 1, 4, 4), generator=source, dtype=torch.uint8)
        split = Split("images", images, torch.arange(60) % 10)
        return Dataset(name, "images", 10, "0", split, split)

    def record(self, run: Any, **values: Any) -> None:
        self.rows.append({"run": f"seed={run.seed}", **run.model_dump(), **values})

    def restore(self) -> Any:
        return copy.deepcopy(self.saved[0]) if self.saved else None

    def checkpoint(self, state: Any) -> None:
        self.states.append((copy.deepcopy(state), len(self.rows)))
        if self.stop_at == len(self.states):
            raise Stop

    def progress(self, done: float, total: float) -> None:
        pass

    def diverged(self, run: Any, reason: str) -> None:
        raise AssertionError(reason)
