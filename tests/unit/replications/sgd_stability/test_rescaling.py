"""Rescaled neurons and the three identities at an interpolating minimum."""

import math

import pandas as pd
import pytest

from replications.sgd_stability import rescaling
from replications.sgd_stability.analysis.rescaling import metrics as rescaling_metrics
from tests.context import MemoryContext


@pytest.mark.parametrize("model", ["product", "relu", "tanh"])
def test_rescaling_reaches_an_interpolating_minimum_and_recovers_its_curvature(model: str) -> None:
    run = rescaling.Parameters(model=model, factors=(0.1, 1.0, 10.0), draws=32, radii=(1e-4, 1e-3, 1e-2), seed=1)
    context = MemoryContext()
    rescaling.run([run], context)
    row = rescaling_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert row["regime_reached"]
    assert row["largest_recovered"] == pytest.approx(1, abs=0.01)
    if model == "product":
        assert row["toy_error"] < 1e-12
        assert row["log_growth"] == pytest.approx(math.log(100.01 / 2))
        assert row["trace_order"] == pytest.approx(2, abs=0.01)
        assert row["largest_order"] == pytest.approx(1, abs=0.02)
    if model == "relu":
        assert row["log_growth"] > 2
        assert row["function_change"] < 1e-10
