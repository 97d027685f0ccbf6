"""Training with small and large batches, and what is measured of it."""

import math
from typing import Any

import pandas as pd
import pytest
import torch

from common.training import Standardise
from replications.sgd_stability import large_batch
from replications.sgd_stability.analysis.large_batch import metrics as large_batch_metrics
from replications.sgd_stability.shared.batch_size_comparison import training_split
from replications.sgd_stability.shared.classifiers import loss_and_error, set_flat, untrained
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.sgd_stability.samples import in_arm

TINY = {"training_images": 50, "hidden": (8, 8), "epochs": 3, "measured_images": 50, "ascent_steps": 2, "dimensions": 5}


def trained(arm: str, seeds: int = 2, **settings: Any) -> MemoryContext:
    context = in_arm("large_batch", arm)
    runs = [large_batch.Parameters(seed=seed, **{**TINY, "batch_size": 8, **settings}) for seed in range(seeds)]
    large_batch.run(runs, context)
    return context


def test_arms_of_a_seed_start_from_equal_weights_and_an_arm_of_its_own_does_not() -> None:
    small, large = trained("small"), trained("large", batch_size=20)
    again = trained("large_again", batch_size=20, own_streams=True)
    for member in range(2):
        assert torch.equal(small.artifacts[member].tensors["initial"], large.artifacts[member].tensors["initial"])
        assert not torch.equal(small.artifacts[member].tensors["weights"], large.artifacts[member].tensors["weights"])
        assert not torch.equal(again.artifacts[member].tensors["initial"], large.artifacts[member].tensors["initial"])
    assert not torch.equal(small.artifacts[0].tensors["initial"], small.artifacts[1].tensors["initial"])


def test_random_labels_are_the_same_at_every_look_and_not_the_true_ones() -> None:
    run, data = large_batch.Parameters(labels="shuffled", **TINY), random_images(1, 8)
    first, second = (training_split(run, data) for _ in range(2))
    true = training_split(large_batch.Parameters(**TINY), data)
    assert torch.equal(first.targets, second.targets)
    assert torch.equal(first.inputs, true.inputs)
    assert float((first.targets != true.targets).float().mean()) > 0.5


def test_a_run_is_measured_where_it_first_passes_the_crossing_loss() -> None:
    context = trained("small", seeds=1, epochs=60, crossing_loss=1.0, learning_rate=0.01)
    crossing, end = context.rows
    assert (crossing["kind"], end["kind"]) == ("crossing", "end")
    assert end["measured_loss"] < crossing["measured_loss"] <= 1.0
    assert "sharpness_0.0005" in end
    assert "sharpness_0.0005" not in crossing
    never = trained("small", seeds=1, epochs=60, crossing_loss=0.0, learning_rate=0.01)
    assert [row["kind"] for row in never.rows] == ["end"]
    assert set(never.artifacts[0].tensors) == {"initial", "weights"}


def test_the_weights_of_the_crossing_have_its_loss() -> None:
    context = trained("small", seeds=1, epochs=60, crossing_loss=1.0, learning_rate=0.01)
    kept, crossing = context.artifacts[0].tensors, context.rows[0]
    run, data = large_batch.Parameters(**TINY), random_images(1, 8)
    network = untrained(run.architecture, data.train.inputs[0].numel(), run.hidden)
    set_flat(network, kept["crossing"])
    standardise = Standardise.by_shares(*data.train.channel_statistics())
    loss, _ = loss_and_error(network, training_split(run, data), standardise)
    assert loss == pytest.approx(crossing["training_loss"])
    assert not torch.equal(kept["crossing"], kept["weights"])


def test_untrained_networks_are_outside_the_regime_and_a_missing_crossing_has_no_number() -> None:
    context = trained("small", seeds=1)
    table = large_batch_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert not table["regime_reached"]
    assert math.isnan(table["crossing_log10_sharpness"])
    row = context.rows[-1]
    assert table["log10_sharpness"] == pytest.approx(math.log10(max(row["sharpness_0.001"], 1e-8)))
