"""The edge is read from the late mean."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.edge_of_stability import metrics as edge_metrics


def test_the_edge_is_read_from_the_late_mean_not_from_the_maximum():
    along = pd.DataFrame(
        {
            "kind": "along",
            "step": range(6),
            "loss": [1, 0.1, 0.01, 9e-4, 5e-4, 1e-4],
            "sharpness": [2.0, 30.0, 21.0, 19.0, 20.0, 21.0],
        }
    )
    end = pd.DataFrame(
        {"kind": ["end"], "step": [5], "loss": [1e-4], "sharpness": [20.5], "stopped": [True], "test_accuracy": [0.8]}
    )
    table = pd.concat([along, end]).assign(run="a", learning_rate=0.1, stopping_loss=1e-4)
    found = edge_metrics(table).loc["a"]
    assert found["edge_ratio"] == pytest.approx(1.0)
    assert found["final_ratio"] == pytest.approx(1.025)
    assert found["peak_ratio"] == pytest.approx(1.5)
    assert found["log_rise"] == pytest.approx(np.log(10))
