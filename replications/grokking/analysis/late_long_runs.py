"""Panels a and b of Figure 4 where grokking is late, from runs that are long enough to say "does not reach"."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from . import late_grokking
from .late_grokking import PANELS, REFERENCE
from .modular_addition import CENSORING, UNREGULARISED
from .shared.accuracies import accuracy_panels


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """Those of `late_grokking`; the regime asks of a run without or with small decay that it lasted long enough, too.

    That is ten times the median time to 99 % with large decay, where a run that never gets there counts as infinite.
    """
    table = late_grokking.metrics(records)
    arms = records.groupby("run", sort=False)["arm"].first().reindex(table.index)
    median = table.loc[arms == REFERENCE, "time_to_grok"].fillna(np.inf).median()
    table["regime_reached"] &= ~arms.isin(UNREGULARISED) | (table["length"] >= CENSORING * median)
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy over steps without decay, with small and with large decay."""
    shown = {arm: name for arm, name in PANELS.items() if (records["arm"] == arm).any()}
    title = "Figure 4, longer runs · modulo {modulus}"
    return {"fig4_late_long": accuracy_panels(records, "arm", shown, title, deviation="D11")}
