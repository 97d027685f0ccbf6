"""What tests of this paper are made of."""

from typing import Any

import numpy as np
import pandas as pd

SPIKY = [0.0, 0.2, 0.5, 0.99, 0.9, 1.0, 0.9, 1.0, 1.0]


def curve(accuracies: list[float], arm: str = "large_decay", seed: int = 0, **more: Any) -> pd.DataFrame:
    """Evaluations every 10 steps with these validation accuracies; training is learnt at the second one."""
    steps = 10 * np.arange(len(accuracies))
    frame = pd.DataFrame({"step": steps, "validation_accuracy": accuracies, "gradients": 2.0 * steps})
    frame["training_accuracy"] = np.where(steps >= 10, 1.0, 0.5)
    settings = {"steps": int(steps[-1]), "lengthening": 1, "evaluation_interval": 10, "window": 30, **more}
    return frame.assign(kind="evaluation", run=f"{arm},{seed}", arm=arm, seed=seed, trace=np.nan, **settings)
