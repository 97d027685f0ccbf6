"""Alignment factors of networks with convolutions and with ten outputs."""

import math

import pytest
import torch

from common.hessian import Problem, alignment
from replications.sgd_stability import alignment_networks
from replications.sgd_stability.alignment_networks import convolutional
from replications.sgd_stability.analysis.alignment_networks import metrics as alignment_networks_metrics
from replications.sgd_stability.shared.squared_error import squared_error
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.sgd_stability.samples import records

SMALL = {"examples": 12, "width": 3, "batch_size": 4, "measured": (0, 20, 40, 60)}


def images() -> MemoryContext:
    return MemoryContext(data=random_images(3, 16))


@pytest.mark.parametrize(("kind", "outputs"), [("convolutional", 1), ("fully_connected", 10)])
def test_a_network_is_measured_until_it_stops_and_once_where_it_stopped(kind: str, outputs: int) -> None:
    setting = {**SMALL, "kind": kind, "outputs": outputs, "learning_rate": 0.05}
    at_once = records(alignment_networks, images(), **setting, dataset="cifar10", stopping_loss=10.0)
    assert at_once.groupby("run")["step"].apply(list).tolist() == [[0]] * 2
    table = records(alignment_networks, images(), **setting, dataset="cifar10", stopping_loss=1e-9)
    assert table.groupby("run")["step"].apply(list).tolist() == [[0, 20, 40, 60]] * 2
    assert not alignment_networks_metrics(table)["regime_reached"].any()
    assert alignment_networks_metrics(at_once.assign(loss=1.0))["regime_reached"].all()


def test_mu_is_that_of_one_output_for_any_number_of_them() -> None:
    setting = {**SMALL, "kind": "fully_connected", "outputs": 10}
    table = records(alignment_networks, images(), **setting, dataset="mnist")
    found = alignment_networks_metrics(table)
    last = table.sort_values("step").groupby("run").last()
    assert found["mu"].tolist() == pytest.approx((10 * last["mu"]).tolist())
    assert (found["mu_smallest"] <= found["mu"]).all()
    assert found["log_frobenius"].iloc[0] == pytest.approx(math.log(last["frobenius"].iloc[0]))


def test_the_convolutional_network_has_the_size_that_is_said_and_one_alignment_with_its_problem() -> None:
    network = convolutional(2, 1, (3, 16, 16))().double()
    sizes = [3 * 9 * 2 + 2, 2 * 9 * 4 + 4, 4 * 9 * 8 + 8, 8 * 4 + 1]
    assert sum(weight.numel() for weight in network.parameters()) == sum(sizes)
    source = torch.Generator().manual_seed(0)
    inputs = torch.rand(6, 3 * 16 * 16, generator=source, dtype=torch.float64)
    found = alignment(Problem(network, squared_error, (inputs, torch.ones(6, 1, dtype=torch.float64))))
    assert found.mu == pytest.approx(found.alpha * found.beta)
