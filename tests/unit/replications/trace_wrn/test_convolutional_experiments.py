"""The convolutional experiments of trace_wrn on made-up pictures: arms, checkpoints, penalty, metrics."""

from typing import Any

import pandas as pd
import pytest
import torch

from common.experiments.seeds import stream_seed
from replications.trace_wrn import cost, trace_regulariser, weight_decay_convolutional
from replications.trace_wrn.analysis import cost as cost_analysis
from replications.trace_wrn.analysis.shared.trace_penalty import regulariser_metrics
from replications.trace_wrn.shared.convolutional import images_of, initialised
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.resuming import same_when_resumed

PICTURES = random_images(3, 16, train=40, test=20, classes=5)
THIN = {"dataset": "pictures", "depth": 10, "widening": 1, "width": 4, "side": 8, "training_images": 24,
        "test_images": 12, "epochs": 2, "batch_size": 12}  # fmt: skip


def regulariser(**more: Any) -> trace_regulariser.Parameters:
    return trace_regulariser.Parameters(**{**THIN, "curvature_images": 12, **more})


def test_images_are_shrunk_by_averaging_and_equal_in_all_arms_of_a_seed() -> None:
    one, other = regulariser(), regulariser(strength=0.1, weight_decay=0.01)
    context = MemoryContext("trace_regulariser", data=PICTURES)
    train, test = images_of(one, context, "x")
    again, _ = images_of(other, context, "x")
    assert train.inputs.shape == (24, 3, 8, 8)
    assert test.inputs.shape == (12, 3, 8, 8)
    assert torch.equal(train.inputs, again.inputs)
    seed = stream_seed("x", "split", 0, {})
    full = PICTURES.train.subset(24, seed=seed).inputs.float()
    assert torch.equal(train.inputs[:, :, 0, 0], full[:, :, :2, :2].mean((2, 3)).round().to(torch.uint8))


@pytest.mark.parametrize("network", ["cnn", "preresnet", "wrn"])
def test_initial_weights_are_those_of_the_seed_in_every_arm(network: str) -> None:
    side = {"side": 16, "depth": 11 if network == "preresnet" else 10}
    context = MemoryContext("weight_decay_convolutional", data=PICTURES)
    arms = [
        initialised(
            weight_decay_convolutional.Parameters(**{**THIN, **side, "network": network, "weight_decay": gamma}),
            context,
            5,
        )
        for gamma in (0.0, 0.1)
    ]
    for left, right in zip(arms[0].parameters(), arms[1].parameters(), strict=True):
        assert torch.equal(left, right)


def test_a_penalised_run_resumed_after_any_epoch_records_what_an_uninterrupted_one_does() -> None:
    run = regulariser(strength=1e-3)
    same_when_resumed(lambda context: trace_regulariser.run([run], context), data=PICTURES)


def measured(arm: str, **setting: Any) -> pd.Series:
    """Metrics of one run."""
    context = MemoryContext("trace_regulariser", data=PICTURES)
    trace_regulariser.run([regulariser(**setting)], context)
    return regulariser_metrics(pd.DataFrame(context.rows).assign(arm=arm, dataset="cifar10")).iloc[-1]


def test_a_strong_penalty_lowers_the_trace() -> None:
    free, held = (measured("ggn", strength=strength, epochs=6)["log_trace_ggn"] for strength in (0.0, 0.05))
    assert held < free - 0.3


def test_a_run_that_leaves_the_numbers_counts_as_guessing_and_has_nothing_else() -> None:
    row = measured("hessian", strength=1e30, epochs=1)
    assert row["loss_share"] == 1
    assert row["training_accuracy"] == row["test_accuracy"] == 10
    assert row[["training_loss", "test_loss", "loss_gap", "log_trace_ggn", "norm"]].isna().all()


def test_counted_costs_are_equal_in_every_draw_and_ordered() -> None:
    setting = {**THIN, "batch_size": 8, "training_images": 16, "probes": 4, "penalty_images": 2}
    tables = []
    for seed in (0, 1):
        context = MemoryContext("cost", data=PICTURES)
        cost.run([cost.Parameters(**{**setting, "seed": seed})], context)
        tables.append(cost_analysis.metrics(pd.DataFrame(context.rows)))
    one, other = tables[0].iloc[0], tables[1].iloc[0]
    for name in ("ggn", "ggn_sub_batch", "ggn_weights", "hessian_weights", "measure"):
        assert one[f"work_{name}"] == other[f"work_{name}"]
    assert 1 < one["work_ggn_sub_batch"] < one["work_ggn"] < one["work_ggn_weights"]
