"""What tests of this paper are made of."""

from typing import Any

import pandas as pd
import torch

from common.datasets import Dataset, Split
from tests.context import MemoryContext


def image_context() -> MemoryContext:
    """With 12 random images of 3 × 4 × 4."""
    source = torch.Generator().manual_seed(5)
    inputs = torch.randint(0, 256, (12, 3, 4, 4), generator=source, dtype=torch.uint8)
    images = Split("images", inputs, torch.arange(12) % 10)
    return MemoryContext("sharpness", data=Dataset("images", "random images", 10, "none", images, images))


def records(ratios: list[float], **settings: Any) -> pd.DataFrame:
    base = {"run": "r", "kind": "along", "rule": "heavy_ball", "momentum": 0.9, "steps": len(ratios) - 1, **settings}
    losses = [10.0**-k for k in range(len(ratios))]
    return pd.DataFrame(
        [{**base, "step": k, "ratio": r, "loss": v} for k, (r, v) in enumerate(zip(ratios, losses, strict=True))]
    )
