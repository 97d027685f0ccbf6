"""The trace of an eighth of each mini-batch against that of the whole."""

import pandas as pd
from matplotlib.figure import Figure

from .shared.trace_penalty import differences_figure, of_arm, regulariser_metrics

SUB_BATCH_BAND = 0.15
"""Change of log₁₀ Tr G that the sub-batch is allowed (claims.yaml): the full penalty must lower it by more."""


def metrics(records: pd.DataFrame) -> pd.DataFrame:
    """As `regulariser_metrics`; the regime is moreover that the whole batch's penalty lowered the seed's Tr G."""
    table = regulariser_metrics(records)
    final = records[records["kind"] == "final"].set_index("run")
    log_trace: pd.Series = table["log_trace_ggn"]
    lowered = of_arm(log_trace, final, "none") - of_arm(log_trace, final, "whole") > SUB_BATCH_BAND
    return table.assign(regime_reached=table["regime_reached"] & lowered)


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Paired differences from η = 0 of the whole batch's penalty and of an eighth's."""
    return {"sub_batch": differences_figure(records, "Trace of the whole mini-batch and of an eighth")}
