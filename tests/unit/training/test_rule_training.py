"""Training by a gradient rule: the plain rule is plain training, a perturbed one resumes, images are averaged down."""

import copy
from functools import partial
from typing import Any

import pytest
import torch

from common.models.wide_resnet import WideResNet
from common.optim import PerturbationRule, PerturbedOpt, PlainGradient
from common.training.images import ImageBatches, averaged_down
from common.training.residual import Recipe, ResidualTraining
from common.training.rules import RuleTraining
from common.training.schedules import constant

RECIPE = Recipe(epochs=3, batch_size=10, schedule=constant)


def training(kind: Any = RuleTraining, **more: Any) -> Any:
    source = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (24, 3, 8, 8), generator=source, dtype=torch.uint8)
    model = WideResNet(10, 1, classes=3, base=4)
    model.initialise(torch.Generator().manual_seed(0))
    batches = ImageBatches(images, torch.randint(0, 3, (24,), generator=source))
    adam = partial(torch.optim.Adam, lr=1e-3)
    return kind(model, batches, RECIPE, torch.Generator().manual_seed(1), optimiser=adam, **more)


def perturbed(optimiser: torch.optim.Optimizer) -> PerturbedOpt:
    constants = PerturbationRule(eta=1.0, gamma=0.5)
    return PerturbedOpt(optimiser, constants, steps_per_epoch=3, generator=torch.Generator().manual_seed(2))


def test_the_plain_rule_trains_as_without_a_rule_to_the_bit() -> None:
    ours, plain = training(rule=PlainGradient), training(ResidualTraining)
    while not plain.over:
        assert ours.one_epoch() == plain.one_epoch()
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, ours.model.state_dict()[name]), name


def test_a_perturbed_training_resumed_after_any_epoch_ends_with_the_same_bits() -> None:
    straight, states = training(rule=perturbed), []
    while not straight.over:
        states.append(copy.deepcopy(straight.state()))
        straight.one_epoch()
    assert straight.rule.steps == 9
    for state in states:
        resumed = training(rule=perturbed)
        resumed.restore(state)
        while not resumed.over:
            resumed.one_epoch()
        assert resumed.step_error == straight.step_error
        for name, tensor in straight.model.state_dict().items():
            assert torch.equal(tensor, resumed.model.state_dict()[name]), name


def test_errors_of_the_steps_count_every_image_once() -> None:
    run = training(rule=PlainGradient)
    run.one_epoch()
    assert 0 < run.step_error * 24 == pytest.approx(round(run.step_error * 24))


def test_images_are_averaged_over_squares_of_pixels() -> None:
    images = torch.randint(0, 256, (3, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    small = averaged_down(images, 4)
    assert torch.equal(small[:, :, 0, 1], images[:, :, :2, 2:4].float().mean((2, 3)).round().to(torch.uint8))
    assert averaged_down(images, 8) is images
    with pytest.raises(ValueError, match="averaged down"):
        averaged_down(images, 3)
