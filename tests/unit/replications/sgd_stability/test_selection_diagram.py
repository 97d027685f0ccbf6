"""Minima that SGD selects, Figs. 16 and 17, and whether it would stay there."""

from typing import Any

import numpy as np
import pytest

from common.datasets import Dataset
from replications.sgd_stability import mean_square_stability, selection_diagram
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
