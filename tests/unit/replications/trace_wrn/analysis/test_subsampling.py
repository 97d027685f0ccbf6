"""The excess of squares against the variance of a mean."""

import pandas as pd
import pytest

from replications.trace_wrn.analysis.subsampling import metrics as subsampling_metrics


def test_the_excess_of_squares_is_held_against_the_variance_of_a_mean_without_replacement() -> None:
    rows = [{"run": "r", "seed": 0, "full": True, "size": 1000, "squared_hessian": 10.0, "squared_ggn": 10.0}]
    predicted = (1000 - 128) / (128 * 999) * (110.0 - 10.0)
    for size, value in ((1, 110.0), (128, 10.0 + predicted)):
        rows += [
            {"run": "r", "seed": 0, "full": False, "size": size, "squared_hessian": value, "squared_ggn": value}
        ] * 3
    frame = pd.DataFrame(rows).assign(trace_hessian=2.0, trace_ggn=2.0, full_images=1000)
    table = subsampling_metrics(frame)
    assert table["squared_hessian_excess_ratio"].iloc[0] == pytest.approx(1)
    assert table["trace_ggn_ratio"].iloc[0] == pytest.approx(1)
