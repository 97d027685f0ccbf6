"""Minima that SGD selects, Figs. 16 and 17, and whether it would stay there."""

from typing import Any

import numpy as np
import pytest

from common.datasets import Dataset
from replications.sgd_stability import mean_square_stability, selection_diagram, staying_at_minima_cifar10
from replications.sgd_stability.analysis import staying_at_minima_cifar10 as staying
from replications.sgd_stability.analysis.mean_square_stability import metrics
from replications.sgd_stability.analysis.shared.selected_minima import minimum_metrics
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.sgd_stability.samples import TINY, dark_images, records


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


VGG = {"dataset": "cifar10", "network": "small_vgg", "classes": 2, "relative_error": 0.1, "stopping_loss": 0.2}


@pytest.mark.parametrize(("data", "network"), [(dark_images(), {}), (random_images(3, 32, classes=2), VGG)])
def test_stability_is_that_of_the_minimum_that_was_selected(data: Dataset, network: dict[str, Any]):
    setting = {**TINY, "learning_rate": 0.1, "batch_size": 4, "relative_error": 0.01, "longest_time": 20, **network}
    context = MemoryContext(data=data)
    selected = records(selection_diagram, context, **setting, seeds=1, check_every=10)
    found = records(mean_square_stability, MemoryContext(data=data, needed=context.artifacts), **setting, seeds=1)
    np.testing.assert_allclose(found["loss"], selected["loss"], rtol=1e-3)
    np.testing.assert_allclose(found["criterion"], selected["criterion"], rtol=2 * setting["relative_error"])
    table = metrics(found)
    assert (table["sharpness_ratio"] < (1 + setting["relative_error"]) * table["exact"]).all()
    assert (table["exact"] < (1 + setting["relative_error"]) * table["criterion"]).all()
    assert table["regime_reached"].tolist() == selected["stopped"].tolist()


@pytest.mark.parametrize(("rate", "leaves"), [(0.02, False), (5.0, True)])
def test_sgd_stays_at_its_minimum_or_leaves_it_as_the_exact_threshold_says(rate: float, leaves: bool):
    setting = {**TINY, "batch_size": 4, "relative_error": 0.05, "longest_time": 200}
    context = MemoryContext(data=dark_images())
    selected = records(selection_diagram, context, **setting, learning_rate=0.1, seeds=1, check_every=10)
    went_on = {**setting, "learning_rate": rate, "trajectories": 3, "steps": 60, "check_every": 20, "left_above": 2}
    again = MemoryContext(data=dark_images(), needed=context.artifacts)
    found = staying.metrics(records(staying_at_minima_cifar10, again, **went_on, seeds=1)).iloc[0]
    assert (found["exact"] > 1) == leaves
    assert found["left"] == (1.0 if leaves else 0.0)
    assert found["as_predicted"] == 1.0
    assert found["regime_reached"] == selected["stopped"].iloc[0]
