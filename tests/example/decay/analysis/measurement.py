"""The squared norm where each run ended."""

import pandas as pd


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """The squared norm of each run."""
    return records.set_index("run")[["squared_norm"]].assign(regime_reached=True)
