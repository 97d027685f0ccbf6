"""Metrics and figures of Fig. 8 without bias and of SGD with weight decay, as those of Fig. 8 are."""

import pandas as pd
from matplotlib.figure import Figure

from . import memorising_minimum

ARMS = {
    "sam": "SAM",
    "sgd_weight_decay": "SGD with weight decay",
    "sam_no_bias": "SAM, no bias",
    "sgd_no_bias": "SGD, no bias",
    "gd_no_bias": "GD, no bias",
    "gd_weight_decay_no_bias": "GD with weight decay, no bias",
}
RIGHT = 0.01


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, with the columns of Fig. 8; `generalises` is 1 if the test error at the end is at most 0.01."""
    table = memorising_minimum.metrics(records)
    table["generalises"] = (table["test_error"] <= RIGHT).astype(float)
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`fig8_without_bias` and `fig8_without_bias_training_loss`."""
    drawn = memorising_minimum.training_curves(records, ARMS)
    return {name.replace("fig8", "fig8_without_bias"): figure for name, figure in drawn.items()}
