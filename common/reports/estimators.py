"""The error of the stochastic estimators behind a claim, beside the spread of its seeds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from common.claims.checking import same_value
from common.claims.estimates import AnyEstimate

SUFFIX = "_standard_error"


@dataclass(frozen=True)
class EstimatorError:
    """Median over runs of the standard error that the estimator of a metric reports of itself."""

    metric: str
    value: float


def estimator_errors(estimate: AnyEstimate, table: Sequence[Mapping[str, Any]]) -> tuple[EstimatorError, ...]:
    """The errors of the metrics that an estimate reads.

    Args:
        table: one row a run; the standard error of a metric stands in the column `<metric>_standard_error`.

    Returns:
        One entry for each metric that has such a column with a finite value in a run that the estimate uses.
    """
    used = [row for row in table if any(_fits(row, arm) for arm in estimate.selections())]
    found = []
    for metric in estimate.variables():
        values = [row.get(metric + SUFFIX) for row in used]
        finite = [
            float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)
        ]
        if finite:
            found.append(EstimatorError(metric, median(finite)))
    return tuple(found)


def _fits(row: Mapping[str, Any], selection: Mapping[str, Any]) -> bool:
    return all(axis in row and same_value(value, row[axis]) for axis, value in selection.items())
