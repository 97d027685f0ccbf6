"""The way from a training minimum to the nearest test minimum."""

import pytest
import torch

from common.models import FullyConnected
from replications.sgd_stability import landscape_shift
from replications.sgd_stability.analysis.landscape_shift import metrics as landscape_shift_metrics
from replications.sgd_stability.landscape_shift import nearest_test_minimum
from tests.unit.replications.sgd_stability.samples import normal, records


def linear(features: int) -> FullyConnected:
    torch.manual_seed(0)
    return FullyConnected((features, 1)).double()


def test_the_way_of_a_linear_model_is_that_of_its_jacobian() -> None:
    model, inputs, targets = linear(12), normal(8, 12), normal(8, 1, seed=1)
    jacobian = torch.cat([inputs, torch.ones(8, 1).double()], 1)
    train, test = jacobian[:4], jacobian[4:]
    errors = (model(inputs) - targets).detach()[:, 0]
    way = -torch.linalg.pinv(test) @ errors[4:]
    flat = way - torch.linalg.pinv(train) @ (train @ way)
    found = nearest_test_minimum(model, inputs, targets, 4)
    assert found["flat_share"] == pytest.approx(float(flat.square().sum() / way.square().sum()))
    assert found["rise"] == pytest.approx(float((train @ way).square().sum() / errors[4:].square().sum()))
    assert found["moved_test_loss"] == pytest.approx(0, abs=1e-20)
    moved = (errors[:4] + train @ way).square().mean()
    assert found["moved_training_loss"] == pytest.approx(float(moved))


def test_a_landscape_that_is_the_other_shifted_rises_by_as_much_as_the_other_falls() -> None:
    inputs, targets = normal(4, 12), normal(8, 1, seed=1)
    found = nearest_test_minimum(linear(12), torch.cat([inputs, inputs]), targets, 4)
    assert found["rise"] == pytest.approx(1) == found["rise_at_random"]
    assert found["flat_share"] == pytest.approx(0, abs=1e-9)
    assert found["flat_share_at_random"] == pytest.approx(0, abs=1e-9)


def test_a_random_direction_has_the_mean_of_many() -> None:
    inputs, targets = normal(8, 12), normal(8, 1, seed=1)
    jacobian = torch.cat([inputs, torch.ones(8, 1).double()], 1)
    train, test = jacobian[:4], jacobian[4:]
    ways = normal(40_000, 4, seed=2) @ test
    flat = ways - ways @ train.T @ torch.linalg.pinv(train).T
    found = nearest_test_minimum(linear(12), inputs, targets, 4)
    assert found["flat_share_at_random"] == pytest.approx(float(flat.square().sum() / ways.square().sum()), rel=0.02)


def test_runs_that_are_not_trained_are_outside_the_regime() -> None:
    table = records(landscape_shift, examples=10, batch_size=5, width=8, longest=20, stopping_loss=1e-6)
    assert len(table) == 2
    found = landscape_shift_metrics(table)
    assert not found["regime_reached"].any()
    assert (found["flat_share"] <= 1).all()
    trained = landscape_shift_metrics(table.assign(training_loss=1e-7, moved_test_loss=0.1 * table["test_loss"]))
    assert trained["regime_reached"].all()
