"""The table of Fig. 4."""

import pytest
import torch
from torch import nn

from replications.sgd_stability import gd_against_sgd
from tests.unit.replications.sgd_stability.samples import digits_context, records


def test_the_gradient_penalty_is_that_of_automatic_differentiation():
    context = digits_context()
    runs = [gd_against_sgd.Parameters(dataset="mnist", network="fully_connected", width=6, training_images=20,
                                      batch_size=8, full_batch=True, penalty=0.7, difference=1e-6)]  # fmt: skip
    training = gd_against_sgd._Training(runs, context)
    training.networks.weights = training.networks.weights.double()
    training.networks.gradients = training.networks.gradients.double()
    training.inputs = training.inputs.double()
    chosen = torch.tensor([[3, 1, 7, 9, 12, 0, 2, 5]])
    found = training._penalised(chosen)[0]
    model = training.networks.module(0).double()
    parameters = list(model.parameters())
    loss = nn.functional.cross_entropy(model(training.inputs[0, chosen[0]]), training.targets[0, chosen[0]])
    slope = torch.autograd.grad(loss, parameters, create_graph=True)
    total = loss + 0.35 * sum(part.square().sum() for part in slope)
    expected = torch.cat([part.flatten() for part in torch.autograd.grad(total, parameters)])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_arms_of_the_table_take_the_steps_that_they_promise_and_clipping_shortens_the_first():
    small = {"dataset": "mnist", "network": "fully_connected", "width": 6, "training_images": 20, "batch_size": 5,
             "epochs": 2, "record_times": 1}  # fmt: skip
    steps = {
        "sgd": ({}, 8), "epochs": ({"full_batch": True}, 2),
        "ten": ({"full_batch": True, "step_budget": "ten_epochs"}, 20),
        "same": ({"full_batch": True, "step_budget": "sgd_steps"}, 8),
    }  # fmt: skip
    for arm, expected in steps.values():
        assert records(gd_against_sgd, **small, **arm)["step"].eq(expected).all()
    run = gd_against_sgd.Parameters(**small, full_batch=True, clip=1e-3, learning_rate=1.0)
    training = gd_against_sgd._Training([run], digits_context())
    before = training.networks.weights.clone()
    training.advance()
    assert float((training.networks.weights - before).norm()) == pytest.approx(1e-3, rel=1e-3)
