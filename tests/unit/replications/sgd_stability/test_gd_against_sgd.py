"""The table of Fig. 4."""

from typing import Any

import pytest
import torch
from torch import nn

from replications.sgd_stability import gd_against_sgd
from tests.context import MemoryContext
from tests.unit.replications.images import random_images
from tests.unit.replications.sgd_stability.samples import digits_context, records

SMALL: dict[str, Any] = {"dataset": "mnist", "network": "fully_connected", "width": 6, "training_images": 20,
                         "validation_images": 30, "batch_size": 5, "epochs": 2, "record_times": 1}  # fmt: skip


def training(seeds: int = 1, context: MemoryContext | None = None, **setting: Any) -> gd_against_sgd._Training:
    runs = [gd_against_sgd.Parameters(seed=seed, **{**SMALL, **setting}) for seed in range(seeds)]
    return gd_against_sgd._Training(runs, context or digits_context())


@pytest.mark.parametrize("network", ["fully_connected", "small_vgg"])
def test_the_gradient_penalty_is_that_of_automatic_differentiation(network):
    context = MemoryContext(data=random_images(3, 32)) if network == "small_vgg" else None
    penalties = {"learning_rates": (0.1,), "penalties": (0.2, 0.7), "difference": 1e-6}
    made = training(context=context, network=network, batch_size=8, full_batch=True, **penalties)
    made.networks.weights = made.networks.weights.double()
    batches = torch.tensor([[3, 1, 7, 9, 12, 0, 2, 5], [4, 6, 8, 10, 11, 13, 14, 15]])
    inputs, targets = made.inputs.double()[0, batches], made.targets[0, batches]
    found = made._penalised(1, inputs, targets)
    model = made.networks.module(1).double()
    parameters = list(model.parameters())
    expected = torch.zeros_like(found)
    for images, classes in zip(inputs, targets, strict=True):
        loss = nn.functional.cross_entropy(model(images), classes)
        slope = torch.autograd.grad(loss, parameters, create_graph=True)
        total = loss + 0.35 * sum(part.square().sum() for part in slope)
        expected += torch.cat([part.flatten() for part in torch.autograd.grad(total, parameters)]) / 2
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_a_step_against_the_penalty_goes_over_all_batches_of_an_epoch():
    with_none, with_tiny = (training(full_batch=True, penalties=(penalty,)) for penalty in (0.0, 1e-9))
    for made in (with_none, with_tiny):
        made.advance()
    assert (with_none.networks.weights != training(full_batch=True).networks.weights).any()
    torch.testing.assert_close(with_tiny.networks.weights, with_none.networks.weights, rtol=1e-4, atol=1e-6)


def test_arms_of_the_table_take_the_steps_that_they_promise():
    steps = {
        "sgd": ({}, 8), "epochs": ({"full_batch": True}, 2),
        "ten": ({"full_batch": True, "step_budget": "ten_epochs"}, 20),
        "same": ({"full_batch": True, "step_budget": "sgd_steps"}, 8),
    }  # fmt: skip
    for arm, expected in steps.values():
        assert records(gd_against_sgd, **SMALL, **arm)["step"].eq(expected).all()


def test_clipping_shortens_the_first_step_of_the_candidates_that_have_it():
    made = training(full_batch=True, learning_rates=(1.0,), clips=(1e-3, 2e-3, 0.0, 1e3))
    before = made.networks.weights.clone()
    made.advance()
    steps = (made.networks.weights - before).norm(dim=1).tolist()
    assert steps[:2] == pytest.approx([1e-3, 2e-3], rel=1e-3)
    assert steps[2] == pytest.approx(steps[3], rel=1e-6)
    assert steps[2] > 2e-3


def test_candidates_of_a_seed_have_the_same_start_images_and_batches_and_are_what_they_are_alone():
    together = records(gd_against_sgd, **SMALL, learning_rates=(0.05, 0.2))
    assert together.groupby("seed")["candidate"].apply(list).tolist() == [[0, 1], [0, 1]]
    for rate, part in together.groupby("learning_rate"):
        alone = records(gd_against_sgd, **SMALL, learning_rates=(rate,))
        assert part["training_loss"].tolist() == pytest.approx(alone["training_loss"].tolist(), rel=1e-5)
    made = training(seeds=2, learning_rates=(0.05, 0.2))
    assert made.owner == [0, 0, 1, 1]
    assert made.rates.flatten().tolist() == pytest.approx([0.05, 0.2, 0.05, 0.2])
    assert torch.equal(made.networks.weights[0], made.networks.weights[1])
    assert not torch.equal(made.networks.weights[1], made.networks.weights[2])


def test_candidates_are_chosen_by_images_that_are_not_trained_on():
    made = training()
    held, own = made.validation[0][0], made.inputs[0]
    assert len(held) == 30
    assert not (held[:, None] == own).all(2).any()


def test_a_candidate_that_is_lost_stays_in_the_records_and_a_run_without_any_other_diverges():
    found = records(gd_against_sgd, **SMALL, seeds=1, learning_rates=(0.1, 1e30))
    assert found["finite"].tolist() == [True, False]
    assert found["training_loss"].isna().tolist() == [False, True]
    context = digits_context()
    run = gd_against_sgd.Parameters(**SMALL, learning_rates=(1e30,))
    gd_against_sgd.run([run], context)
    assert not context.rows
    assert "no candidate" in next(iter(context.divergences.values()))
