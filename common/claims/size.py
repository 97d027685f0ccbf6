"""The size of an effect beside the one that the document reports.

Two measures of replication research: how many times the reported effect ours is, with its interval, and whether ours
lies in the interval in which the reported effect predicts a replication (Patil, Peng and Leek 2016), which needs the
document's standard error. The small telescope (Simonsohn 2015) and the sceptical p-value (Held 2020) would need its
number of runs and its test as well, which none of the documents gives.
"""

import math
from typing import Any

from common.claims.estimation import Measurement
from common.claims.intervals import t_quantile
from common.claims.schema import Size
from common.claims.wording import interval_text, number


def size_of(size: Size, measurement: Measurement, n: int | None) -> dict[str, Any]:
    """Ratio of our effect to the reported one with its interval, what follows, and the same in words.

    `judgement` is "as reported" if the interval lies within a factor, "smaller" or "larger" if it lies outside,
    else "undecided"; in "opposite" direction it has no size. `predicted` tells, where the document gives a standard
    error, whether our estimate lies in its prediction interval.
    """
    assert measurement.estimate is not None
    assert measurement.interval is not None
    reported = size.reported - size.origin
    ratio = (measurement.estimate - size.origin) / reported
    low, high = sorted((end - size.origin) / reported for end in measurement.interval)
    judgement = _judgement(low, high, size.factor)
    text = f"{number(ratio)} times the reported effect {interval_text(low, high)}"
    found: dict[str, Any] = {"ratio": ratio, "interval": [low, high], "judgement": judgement, "text": text}
    found |= {"prediction": None, "predicted": None}
    if size.standard_error is not None:
        own = (measurement.interval[1] - measurement.interval[0]) / 2 / float(t_quantile((n or 2) - 1))
        reach = 1.96 * math.hypot(own, size.standard_error)
        found["prediction"] = [size.reported - reach, size.reported + reach]
        found["predicted"] = abs(measurement.estimate - size.reported) <= reach
    return found


def _judgement(low: float, high: float, factor: float) -> str:
    if high < 0:
        return "opposite"
    if 1 / factor <= low and high <= factor:
        return "as reported"
    if high < 1 / factor:
        return "smaller"
    return "larger" if low > factor else "undecided"
