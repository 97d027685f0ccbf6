"""λ₁ along gradient descent: Table 1 and Fig. 14."""

import numpy as np

from replications.sgd_stability import edge_of_stability
from replications.sgd_stability.analysis.edge_of_stability import metrics as edge_metrics
from tests.unit.replications.sgd_stability.samples import TINY, digits_context, records


def test_an_edge_run_records_the_sharpness_that_the_toolkit_finds_and_its_end():
    table = records(edge_of_stability, **TINY, learning_rate=0.3, longest_time=300, measure_every=15)
    end = table[table["kind"] == "end"].set_index("seed")
    assert (end["loss"] <= 0.02).all()
    last = table[table["kind"] == "along"].groupby("seed").last()
    np.testing.assert_allclose(last["sharpness"], end["sharpness"], rtol=0.03)
    found = edge_metrics(table)
    assert found["regime_reached"].all()


def test_a_run_that_diverges_is_reported_and_has_no_solution():
    context = digits_context()
    table = records(
        edge_of_stability, context, seeds=1, **TINY, learning_rate=50.0, longest_time=3000, measure_every=500
    )
    assert len(context.divergences) == 1
    found = edge_metrics(table).iloc[0]
    assert np.isnan(found["final_ratio"])
    assert not found["regime_reached"]
