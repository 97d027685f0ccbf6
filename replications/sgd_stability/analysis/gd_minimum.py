"""The minimum that gradient descent comes to: a row a run."""

import pandas as pd
from matplotlib.figure import Figure


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: λ₁ over 2/η."""
    table = records.groupby("run", sort=False).last()
    table["edge_ratio"] = table["sharpness"] * table["learning_rate"] / 2
    table["regime_reached"] = table["stopped"].astype(bool)
    return table[["sharpness", "edge_ratio", "loss", "steps", "test_accuracy", "regime_reached"]]


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """None: `escape` draws what starts here."""
    return {}
