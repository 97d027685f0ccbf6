"""The minima of Fig. 16 beside the exact threshold of mean-square stability: a row a run, and their figure."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .shared.selected_minima import FULL, criterion_figure, say_reduced

BOUNDS = {
    "sharpness_ratio": "sharpness a, over 2/η (necessary)",
    "criterion": f"{FULL} (sufficient)",
    "exact": "exact: η over the largest stable learning rate",
}


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`: the three ratios to their bounds.

    Columns: `sharpness_ratio` = ηλ₁/2, `criterion` (the full criterion, over its bound), `exact` (the learning rate
    over the largest at which SGD is stable in mean square), `log_excess`, the logarithm of the second over the third,
    and `regime_reached`: the loss of the selection diagram was reached and both eigenvalues converged.
    """
    table = records.groupby("run", sort=False).last()
    return pd.DataFrame(
        table[["sharpness_ratio", "criterion", "exact"]].assign(
            log_excess=np.log(table["criterion"] / table["exact"]),
            regime_reached=table["stopped"].astype(bool) & table["converged"].astype(bool),
        )
    )


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """`mean_square_stability`."""
    settings = records.groupby("run", sort=False)[["batch_size", "learning_rate", "standing"]].first()
    drawn = {"mean_square_stability": criterion_figure(metrics(records).join(settings), BOUNDS)}
    return say_reduced(drawn, records)
