"""The minimum that gradient descent comes to: a row a run; `escape` draws what starts there."""

import pandas as pd


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: λ₁ over 2/η."""
    table = records.groupby("run", sort=False).last()
    table["edge_ratio"] = table["sharpness"] * table["learning_rate"] / 2
    table["regime_reached"] = table["stopped"].astype(bool)
    return table[["sharpness", "edge_ratio", "loss", "steps", "test_accuracy", "regime_reached"]]
