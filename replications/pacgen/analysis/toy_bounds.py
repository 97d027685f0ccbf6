"""The bounds on the toy: a row a run, and each term of theirs."""

import pandas as pd
from matplotlib.figure import Figure

from .shared.bounds import bound_figure, bound_metrics

metrics = bound_metrics


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Every version term by term, mean over mixtures and both minima."""
    return {"toy_bounds": bound_figure(records, "Bounds on the toy")}
