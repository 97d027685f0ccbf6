"""The minimum that gradient descent comes to: a row a run; `escape` draws what starts there."""

import pandas as pd


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run: `edge_ratio`, λ₁ over 2/η; `radius`, growth of the mean square a step by SGD with B = 16."""
    table = records.groupby("run", sort=False).last()
    table["edge_ratio"] = table["sharpness"] * table["learning_rate"] / 2
    table["regime_reached"] = table["stopped"].astype(bool)
    return table[["sharpness", "edge_ratio", "radius", "loss", "steps", "test_accuracy", "regime_reached"]]
