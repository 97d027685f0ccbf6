"""Model and loss are compared from one start."""

import pandas as pd
import pytest

from replications.cohen2021edge.analysis.quadratic_model import metrics as expansion_metrics
from tests.unit.replications.cohen2021edge.samples import records


def test_growth_of_model_and_loss_are_taken_over_the_same_start() -> None:
    losses = {"loss": [2.0, 1.5, 0.2], "model_loss": [2.0, 1.0, 200.0]}
    here = pd.DataFrame({"run": "r", "kind": "from_here", "step": [0, 1, 2], "start": 40, **losses})
    row = expansion_metrics(here).loc["r"]
    assert row["log10_model_growth"] == pytest.approx(2)
    assert row["log10_growth"] == pytest.approx(-1)
    assert row["gap"] == pytest.approx(99.9)
    assert row["gap_over_fall"] == pytest.approx(199.8 / 1.8)
    assert not expansion_metrics(records([0.5])).loc["r", "regime_reached"]
