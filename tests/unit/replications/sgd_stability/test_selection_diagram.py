"""Minima that SGD selects: Figs. 16 and 17."""

import numpy as np

from replications.sgd_stability import selection_diagram
from replications.sgd_stability.analysis.shared.selected_minima import minimum_metrics
from tests.unit.replications.sgd_stability.samples import TINY, records


def test_selection_measures_each_minimum_against_its_own_bounds():
    sgd = records(selection_diagram, **TINY, learning_rate=0.3, batch_size=4, longest_time=1000, check_every=10)
    found = minimum_metrics(sgd)
    assert found["regime_reached"].all()
    bound = (4 * 9 / 6) ** 0.5 / 0.3
    np.testing.assert_allclose(found["non_uniformity_ratio"], found["non_uniformity"] / bound)
    np.testing.assert_allclose(found["sharpness_ratio"], found["sharpness"] * 0.15)
    full = records(selection_diagram, **TINY, learning_rate=0.3, batch_size=10, longest_time=1000)
    assert minimum_metrics(full)["non_uniformity_ratio"].isna().all()
    np.testing.assert_allclose(full["criterion"], full["sharpness"] * 0.15, rtol=0.15)
