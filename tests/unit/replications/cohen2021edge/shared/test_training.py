"""Training in the span of the images is training on them, and may be interrupted."""

import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, dense
from common.models import initialise_uniform
from replications.cohen2021edge.shared.setting import Rule, Setting
from replications.cohen2021edge.shared.training import Training, network
from tests.unit.replications.cohen2021edge.samples import image_context


@pytest.mark.parametrize(("rule", "momentum"), [("gradient_descent", 0.0), ("heavy_ball", 0.9), ("nesterov", 0.9)])
def test_training_in_the_span_of_the_images_is_training_on_the_images(rule: Rule, momentum: float) -> None:
    context = image_context()
    run = Setting(training_images=12, width=6, rule=rule, momentum=momentum, edge=8.0, seed=1)
    training = Training([run], context)
    images = context.data("cifar10").train.inputs.double().flatten(1)
    images = ((images - images.mean(0)) / images.std(0)).float()
    targets = training.data[1]
    whole = network(48, 6, 10)
    initialise_uniform(whole, context.generator(run, "init"))
    optimiser = torch.optim.SGD(whole.parameters(), run.learning_rate, momentum=momentum, nesterov=rule == "nesterov")
    for _ in range(15):
        training.advance(1)
        optimiser.zero_grad()
        nn.functional.mse_loss(whole(images), targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        loss = float(nn.functional.mse_loss(whole(images), targets))
    assert float(training.ensemble.losses(*training.data)[0]) == pytest.approx(loss, rel=1e-4)
    training.measure()
    exact = torch.linalg.eigvalsh(dense(Hessian(Problem(whole, nn.MSELoss(), (images, targets)))))[-1]
    assert context.rows[-1]["sharpness"] == pytest.approx(float(exact), rel=0.02)
    assert context.rows[-1]["ratio"] == pytest.approx(context.rows[-1]["sharpness"] / 8.0)


def test_training_goes_on_where_it_was_stopped() -> None:
    run = Setting(training_images=12, width=6, rule="heavy_ball", momentum=0.9, edge=8.0, seed=1)
    whole, first, second = (Training([run], image_context()) for _ in range(3))
    whole.advance(8)
    first.advance(5)
    second.restore(first.state())
    second.advance(3)
    assert torch.equal(whole.ensemble.weights, second.ensemble.weights)
