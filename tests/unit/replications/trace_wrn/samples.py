"""What tests of this paper are made of."""

from typing import Any


def ends(arm: str, loss: float, trace: float, dataset: str = "cifar10", seed: int = 0) -> dict[str, Any]:
    """The last record of a run of `arm`."""
    errors = {"training_error": 0.1, "test_error": 0.5, "test_loss": 2.0, "lost": False}
    return {"run": f"{arm},{seed}", "arm": arm, "seed": seed, "kind": "final", "dataset": dataset, "norm": 9.0,
            "training_loss": loss, "trace_ggn": trace, **errors}  # fmt: skip
