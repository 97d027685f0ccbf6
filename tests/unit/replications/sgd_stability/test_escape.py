"""From a minimum of gradient descent: Fig. 19 and Theorem 4."""

import numpy as np

from replications.sgd_stability import escape, gd_minimum
from replications.sgd_stability.analysis.escape import metrics as escape_metrics
from tests.unit.replications.sgd_stability.samples import PARITY, digits_context, records


def test_escape_starts_where_gradient_descent_ended_and_its_bound_holds_at_every_state():
    start = digits_context()
    records(gd_minimum, start, **PARITY, stopping_loss=1e-6)
    setting = {"trajectories": 30, "steps": 8, "longest": 200, **PARITY}
    for batch_size in (1, 4):
        table = records(escape, digits_context(start.artifacts), batch_size=batch_size, **setting)
        assert (table[(table["kind"] == "losses") & (table["step"] == 0)]["mean"] <= 1.001e-6).all()
        found = escape_metrics(table)
        assert (found["theorem_ratio"] >= 1 - 1e-9).all()
        assert found["regime_reached"].all()
        first = table[table["kind"] == "averages"].groupby("seed").first()
        np.testing.assert_allclose(first["median_mu"], first["smallest_mu"])  # all start at one point
