"""What tests of this paper are made of."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch

from replications.cohen2021edge.shared.setting import Setting


class Context:
    """What `Training` asks of a context, with 12 random images of 3 × 4 × 4."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.rows: list[dict[str, Any]] = []
        self.of: list[Setting] = []
        self.checkpoints = 0
        source = torch.Generator().manual_seed(5)
        self.images = torch.randint(0, 256, (12, 3, 4, 4), generator=source, dtype=torch.uint8)

    def data(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(train=SimpleNamespace(inputs=self.images, targets=torch.arange(12) % 10))

    def generator(self, run: Setting, stream: str) -> torch.Generator:
        return torch.Generator().manual_seed(run.seed)

    def record(self, run: Setting, **values: Any) -> None:
        self.rows.append({"seed": run.seed, **values})
        self.of.append(run)

    def restore(self) -> None:
        return None

    def progress(self, done: float, total: float) -> None:
        pass

    def checkpoint(self, state: Any) -> None:
        self.checkpoints += 1


def records(ratios: list[float], **settings: Any) -> pd.DataFrame:
    base = {"run": "r", "kind": "along", "rule": "heavy_ball", "momentum": 0.9, "steps": len(ratios) - 1, **settings}
    losses = [10.0**-k for k in range(len(ratios))]
    return pd.DataFrame(
        [{**base, "step": k, "ratio": r, "loss": v} for k, (r, v) in enumerate(zip(ratios, losses, strict=True))]
    )
