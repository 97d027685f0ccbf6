"""What tests of this paper are made of."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch

from common.datasets import Dataset, Split
from common.models import FullyConnected
from common.training import FullyConnectedEnsemble
from tests.context import Artifact, MemoryContext
from tests.unit.replications.images import random_images


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def regression(sizes: tuple[int, ...], count: int) -> tuple[FullyConnected, torch.Tensor, torch.Tensor]:
    ensemble = FullyConnectedEnsemble.drawn(sizes, [generator()], dtype=torch.float64)
    source = generator(1)
    inputs = torch.randn(count, sizes[0], generator=source, dtype=torch.float64)
    return ensemble.module(0), inputs, torch.randn(count, sizes[-1], generator=source, dtype=torch.float64)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def dark_images() -> Dataset:
    source = generator(3)

    def split(part: str, count: int) -> Split:
        images = torch.randint(0, 256, (count, 1, 28, 28), generator=source, dtype=torch.uint8)
        images *= torch.rand(images.shape, generator=source) < 0.1  # as dark as digits
        return Split(f"digits/{part}", images, torch.randint(0, 10, (count,), generator=source))

    return Dataset("digits", "random images", 10, "none", split("train", 60), split("test", 30))


def digits_context(needed: Sequence[Artifact] = ()) -> MemoryContext:
    return MemoryContext(data=dark_images(), needed=needed)


def records(experiment: Any, context: MemoryContext | None = None, seeds: int = 2, **setting: Any) -> pd.DataFrame:
    context = context or digits_context()
    experiment.run([experiment.Parameters(seed=seed, **setting) for seed in range(seeds)], context)
    return pd.DataFrame(context.rows)


TINY = {"training_images": 10, "test_images": 20, "width": 12, "stopping_loss": 0.02}
PARITY = {"training_images": 12, "test_images": 20, "width": 12}


def in_arm(experiment: str, arm: str, **how: Any) -> MemoryContext:
    return MemoryContext(experiment, axes=lambda run: {"arm": arm}, **{"data": random_images(1, 8), **how})
