"""The way from a training minimum to a minimum of the test loss."""

import pytest
import torch

from common.models import FullyConnected
from replications.sgd_stability import landscape_shift
from replications.sgd_stability.analysis.landscape_shift import metrics as landscape_shift_metrics
from replications.sgd_stability.landscape_shift import way_between
from tests.unit.replications.sgd_stability.samples import normal, records

COUNT, FEATURES = 4, 12
LENGTHS = {"examples": 10, "batch_size": 5, "width": 8}


def linear(weights: torch.Tensor) -> FullyConnected:
    model = FullyConnected((FEATURES, 1)).double()
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(weights, model.parameters())
    return model


def problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs, targets, and their Jacobian by weights and bias."""
    inputs = normal(2 * COUNT, FEATURES)
    return inputs, normal(2 * COUNT, 1, seed=1), torch.cat([inputs, torch.ones(2 * COUNT, 1).double()], 1)


def test_the_way_of_a_linear_model_is_split_by_its_jacobian() -> None:
    inputs, targets, jacobian = problem()
    start, end = normal(2, FEATURES + 1, seed=2)
    train, way = jacobian[:COUNT], end - start
    flat = way - torch.linalg.pinv(train) @ (train @ way)
    found = way_between(linear(start), linear(end), inputs, targets)
    assert found["flat_share"] == pytest.approx(float(flat.square().sum() / way.square().sum()))
    losses = [((jacobian @ at)[:, None] - targets).square().view(2, COUNT).mean(1) for at in (start, end)]
    assert found["rise"] == pytest.approx(float((losses[1][0] - losses[0][0]) / (losses[0][1] - losses[1][1])))


def test_a_way_along_and_one_across_flat_directions() -> None:
    inputs, targets, jacobian = problem()
    start = normal(FEATURES + 1, seed=2)
    across = jacobian[:COUNT].mT @ normal(COUNT, seed=3)
    along = torch.linalg.svd(jacobian[:COUNT])[2][-1]
    shares = [way_between(linear(start), linear(start + way), inputs, targets)["flat_share"] for way in (along, across)]
    assert shares == pytest.approx([1, 0], abs=1e-9)


def test_a_random_direction_has_the_mean_of_many() -> None:
    inputs, targets, jacobian = problem()
    train, test = jacobian[:COUNT], jacobian[COUNT:]
    ways = normal(40_000, COUNT, seed=2) @ test
    flat = ways - ways @ train.T @ torch.linalg.pinv(train).T
    model = linear(normal(FEATURES + 1, seed=3))
    found = way_between(model, linear(normal(FEATURES + 1, seed=4)), inputs, targets)
    expected = float(flat.square().sum() / ways.square().sum())
    assert found["flat_share_at_random"] == pytest.approx(expected, rel=0.02)


def test_runs_count_whose_two_trainings_came_to_their_ends() -> None:
    early = landscape_shift_metrics(records(landscape_shift, **LENGTHS, longest=20, stopping_loss=1e-6))
    assert len(early) == 2
    assert not early["regime_reached"].any()
    late = landscape_shift_metrics(records(landscape_shift, **LENGTHS, longest=4000, stopping_loss=0.01))
    assert late["regime_reached"].all()
    assert (late["flat_share"] <= 1).all()
