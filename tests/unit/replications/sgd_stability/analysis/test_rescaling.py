"""The least trace over all rescalings is that of the balanced pair."""

import math

import pandas as pd
import pytest

from replications.sgd_stability.analysis.rescaling import _log_fall


def test_the_least_trace_over_all_rescalings_is_that_of_the_balanced_pair() -> None:
    factors = (0.01, 1.0, 100.0)
    trace = pd.DataFrame([[3 * c**2 + 5 / c**2 for c in factors]], columns=factors)
    assert _log_fall(trace).iloc[0] == pytest.approx(math.log(2 * math.sqrt(15) / 8))
