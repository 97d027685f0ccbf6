"""From perturbed losses to one row a run."""

import numpy as np
import pandas as pd

SMALL = 0.5
"""Multiples of the authors' σ up to which orders of the remainder are fitted."""
TRAINED = 0.3
"""Training error up to which a network counts as trained."""


def stability_metrics(records: pd.DataFrame) -> pd.DataFrame:
    """One row a run, indexed by `run`.

    relative_gap, relative_gap_small: σ²/2 Tr H over the measured rise of the loss, less one, at the authors' σ and at
    the smallest; `_with_kinks` with the kink term added. remainder_order: slope of
    log |remainder| over log σ, up to half the authors' σ; kinks are part of the remainder.
    """
    rows = {}
    for name, part in records.groupby("run", sort=False):
        part = part.sort_values("sigma")
        middle = part[part["factor"] == 1].iloc[0]
        smallest, low = part.iloc[0], part[part["factor"] <= SMALL]
        rows[name] = {
            "relative_gap": _gap(middle),
            "relative_gap_small": _gap(smallest),
            "relative_gap_with_kinks": _gap(middle, kinks=True),
            "relative_gap_small_with_kinks": _gap(smallest, kinks=True),
            "relative_error_small": float(smallest["remainder_error"] / smallest["paired_change"]),
            "kink_share": float(smallest["kinks"] / smallest["paired_change"]),
            "remainder_order": _order(low, low["remainder"]),
            "trace": float(2 * middle["curvature"] / middle["sigma"] ** 2),
            "test_error": float(middle["test_error"]),
            "training_error": float(middle["training_error"]),
            "regime_reached": bool(middle["training_error"] <= TRAINED),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "run"
    return table


def _gap(row: pd.Series, *, kinks: bool = False) -> float:
    predicted = row["curvature"] + (row["kinks"] if kinks else 0.0)
    return float(predicted / row["paired_change"] - 1)


def _order(rows: pd.DataFrame, remainders: pd.Series) -> float:
    return float(np.polyfit(np.log(rows["sigma"]), np.log(remainders.abs().clip(lower=1e-300)), 1)[0])
