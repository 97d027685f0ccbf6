"""Panels a and b of Figure 4 where grokking is late, from runs that are long enough to say "does not reach"."""

import pandas as pd
from matplotlib.figure import Figure

from . import late_grokking
from .late_grokking import PANELS
from .modular_addition import waited_long_enough
from .shared.accuracies import accuracy_panels


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """Those of `late_grokking`; the regime asks of a run without or with small decay that it waited, too."""
    table = late_grokking.metrics(records)
    waited = waited_long_enough(table, records)
    table.loc[waited.index, "regime_reached"] &= waited
    return table


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy over steps without decay, with small and with large decay."""
    shown = {arm: name for arm, name in PANELS.items() if (records["arm"] == arm).any()}
    title = "Figure 4, longer runs · modulo {modulus}"
    return {"fig4_late_long": accuracy_panels(records, "arm", shown, title, deviation="D11")}
