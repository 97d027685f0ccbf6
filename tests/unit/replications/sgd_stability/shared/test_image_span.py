"""Training in the span of the images is training on them."""

import pytest
import torch
from torch import nn

from common.hessian import Problem, sharpness
from common.training import FullyConnectedEnsemble
from replications.sgd_stability.shared.image_span import ImageSpan
from tests.unit.replications.sgd_stability.samples import generator


def test_training_in_the_span_of_the_images_is_training_on_the_images() -> None:
    source = generator(3)
    images, others = torch.rand(6, 20, generator=source).double(), torch.rand(5, 20, generator=source).double()
    targets = torch.rand(6, 2, generator=source).double()
    whole = FullyConnectedEnsemble.drawn((20, 8, 8, 2), [generator(s) for s in (0, 1)], dtype=torch.float64)
    span = ImageSpan(whole.members([0, 1]), images)
    assert span.inputs.shape == (6, 6)
    for step in range(30):
        batch, rates = torch.arange(step, step + 4) % 6, torch.full((2,), 0.1, dtype=torch.float64)
        losses = whole.sgd_step(images[batch], targets[batch], rates)
        torch.testing.assert_close(span.ensemble.sgd_step(span.inputs[batch], targets[batch], rates), losses)
    torch.testing.assert_close(span.on_images([0, 1]).weights, whole.weights)
    torch.testing.assert_close(span.module(1)(others), whole.module(1)(others))
    largest = [
        sharpness(Problem(model, nn.MSELoss(), (inputs, targets)), relative_error=1e-6).estimate.value
        for model, inputs in ((span.ensemble.module(0), span.inputs), (whole.module(0), images))
    ]
    assert largest[0] == pytest.approx(largest[1], rel=1e-5)


def test_as_many_images_as_pixels_are_left_as_they_are() -> None:
    whole, images = FullyConnectedEnsemble.drawn((4, 3, 1), [generator()]), torch.rand(4, 4, generator=generator())
    span = ImageSpan(whole, images)
    assert span.ensemble is whole
    assert span.inputs is images
    assert torch.equal(span.on_images([0]).weights, whole.weights)
