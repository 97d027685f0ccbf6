"""What tests of this paper are made of."""

from typing import Any

import pandas as pd

from tests.context import MemoryContext
from tests.unit.replications.images import random_images


def image_context() -> MemoryContext:
    """With 12 random images of 3 × 4 × 4."""
    return MemoryContext("sharpness", data=random_images(3, 4, train=12))


def records(ratios: list[float], **settings: Any) -> pd.DataFrame:
    base = {"run": "r", "kind": "along", "rule": "heavy_ball", "momentum": 0.9, "steps": len(ratios) - 1, **settings}
    losses = [10.0**-k for k in range(len(ratios))]
    return pd.DataFrame(
        [{**base, "step": k, "ratio": r, "loss": v} for k, (r, v) in enumerate(zip(ratios, losses, strict=True))]
    )
