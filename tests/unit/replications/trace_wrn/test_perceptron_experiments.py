"""The perceptron of trace_wrn on made-up digits: training, curvature, readings of the measure, theory."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from common.models.mnist_perceptron import MnistPerceptron
from common.training.schedules import linear_decay
from replications.trace_wrn import published_tables, weight_decay_paradox, zero_loss_limit
from replications.trace_wrn.analysis import published_tables as published_tables_analysis
from replications.trace_wrn.analysis.shared.measure import DAMPINGS
from replications.trace_wrn.analysis.weight_decay_paradox import metrics as decay_metrics
from replications.trace_wrn.shared.perceptron import Training, normalised, prepare
from replications.trace_wrn.shared.published import TABLES
from replications.trace_wrn.zero_loss_limit import margin_loss
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.resuming import same_when_resumed

IMAGES = random_images(1, 28)
TINY = {"training_images": 40, "batch_size": 16, "epochs": 3, "log_points": 3, "moments": 4, "start_vectors": 2}
SMALL = {**TINY, "outliers": 2, "norm_probes": 3, "eigenvalue_error": 0.5}


def settings(gamma: float, **more: Any) -> list[Any]:
    return [weight_decay_paradox.Parameters(**{**SMALL, **more, "weight_decay": gamma, "seed": s}) for s in (0, 1)]


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    context = MemoryContext("weight_decay_paradox", data=IMAGES)
    for gamma in (0.0, 0.0001, 0.0005):
        weight_decay_paradox.run(settings(gamma), context)
    return pd.DataFrame(context.rows)


def test_arms_of_a_seed_start_from_equal_weights_on_equal_images_in_equal_order() -> None:
    arms = []
    for gamma in (0.0, 0.01):
        context, runs = MemoryContext("weight_decay_paradox", data=IMAGES), settings(gamma)
        arms.append(Training(runs, context, [prepare(run, context) for run in runs]))
    one, other = arms
    assert torch.equal(one.initial, other.initial)
    assert torch.equal(one.images, other.images)
    for left, right in zip(one.batches, other.batches, strict=True):
        assert torch.equal(left.get_state(), right.get_state())
    assert not torch.equal(one.initial[0], one.initial[1])


def test_a_member_is_trained_as_sgd_trains_a_module() -> None:
    context, (run, other) = MemoryContext("weight_decay_paradox", data=IMAGES), settings(0.01)
    training = Training([run, other], context, [prepare(r, context) for r in (run, other)])
    training.train()
    task, model = prepare(run, context), MnistPerceptron()
    torch.nn.utils.vector_to_parameters(training.initial[0].clone(), model.parameters())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.01)
    for epoch in range(run.epochs):
        optimiser.param_groups[0]["lr"] = run.learning_rate * linear_decay(epoch / run.epochs)
        for chosen in torch.randperm(40, generator=task.batches).split(16):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(normalised(task.images[chosen])), task.targets[chosen])
            torch.autograd.backward(loss)
            optimiser.step()
    expected = torch.nn.utils.parameters_to_vector(model.parameters())
    assert torch.allclose(training.ensemble.weights[0], expected, atol=1e-5)


def test_a_run_resumed_at_any_checkpoint_records_what_an_uninterrupted_one_does() -> None:
    runs = settings(0.0005)
    whole = same_when_resumed(lambda context: weight_decay_paradox.run(runs, context), data=IMAGES)
    assert len(whole.checkpoints) == TINY["epochs"] + 2


def test_metrics_hold_the_readings_and_the_equations_as_they_are_written(records: pd.DataFrame) -> None:
    table = decay_metrics(records)
    final = records[records["kind"] == "final"].set_index("run")
    row, raw = table.iloc[-1], final.iloc[-1]
    square = raw["norm"] ** 2
    assert row["a_equation7"] == pytest.approx(raw["trace"] + square / 2)
    assert row["a_mean_trace"] == pytest.approx(raw["trace"] / 9960 + square / 2)
    assert row["a_mean_trace_half_norm"] == pytest.approx(raw["trace"] / 9960 + raw["norm"] / 2)
    assert row["loss_gap"] == pytest.approx(raw["test_loss"] - raw["training_loss"])
    nodes = records[(records["run"] == raw.name) & (records["kind"] == "node")]
    for name, delta in DAMPINGS.items():
        logarithm = 9960 * (nodes["weight"] * np.log(nodes["node"].clip(lower=0) + delta)).sum() / 2
        assert row[f"equation6_printed_{name}"] == pytest.approx((raw["trace"] + square + logarithm) / 2, rel=1e-6)
    assert row["trace_squared_mean"] == pytest.approx(raw["trace_squared"] / 9960)


def test_the_margin_loss_is_the_cross_entropy_and_stays_exact_where_that_is_0() -> None:
    logits, targets = torch.randn(6, 10).double(), torch.arange(6)
    assert float(margin_loss(logits, targets)) == pytest.approx(float(nn.functional.cross_entropy(logits, targets)))
    far = torch.zeros(1, 3).double()
    far[0, 0] = 50.0
    assert float(nn.functional.cross_entropy(far, torch.tensor([0]))) == 0
    assert float(margin_loss(far, torch.tensor([0]))) == pytest.approx(2 * math.exp(-50), rel=1e-12)


def test_on_the_ray_curvature_vanishes_and_rescaled_layers_keep_it(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(20, 12, generator=torch.Generator().manual_seed(0)).double()
    monkeypatch.setattr(zero_loss_limit, "_images", lambda run, context: (inputs, torch.arange(20) % 10))
    context = MemoryContext("zero_loss_limit")
    run = zero_loss_limit.Parameters(training_images=20, width=8, steps=200, scales=(1.0, 2.0))
    zero_loss_limit.run([run], context)
    first, last = context.rows[0], context.rows[-1]
    assert last["loss"] < 1e-2 * first["loss"]
    assert last["sharpness"] < 0.2 * first["sharpness"]
    assert last["rescaled_sharpness"] == pytest.approx(first["sharpness"], rel=1e-4)
    assert last["rescaled_loss"] == pytest.approx(last["loss"], rel=1e-9)


def test_published_numbers_are_judged_as_the_inventory_works_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_tables, "_initialised", lambda network, source: nn.Linear(3, 2))
    context = MemoryContext("published_tables")
    names = ("mlp", "cnn", "preresnet", "wrn", "table7", "table8")
    published_tables.run([published_tables.Parameters(table=name) for name in names], context)
    monkeypatch.undo()
    frame = pd.DataFrame(context.rows)
    for name, table in TABLES.items():
        frame.loc[frame["table"] == name, "parameters"] = table.parameters
    table = published_tables_analysis.metrics(frame).set_index(frame.groupby("run", sort=False)["table"].first())
    assert table.loc["table7", "welch_p_deviation"] == pytest.approx(0.15, abs=0.005)
    assert table.loc["table8", "accuracy_change"] == pytest.approx(-0.23)
    assert table.loc["mlp", "raw_trace_over_measure"] == pytest.approx(175.3 / 6.1, rel=1e-3)
    assert table.loc["wrn", "per_parameter_moment"] == pytest.approx(2.94, rel=0.01)
    assert table.loc["mlp", "equation7_last_step_norm"] == pytest.approx(193.9 / 192.3, rel=1e-3)
    assert table.loc["mlp", "equation7_last_step"] == pytest.approx(249.4 / 269.6, rel=2e-3)
    assert table.loc[["mlp", "cnn", "preresnet", "wrn"], "raw_moment"].lt(1).all()
