"""Images on the device, their augmentation, schedules, and the training of one network, with and without a rule."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from common.datasets.splits import Split
from common.models.wide_resnet import WideResNet
from common.optim import GradientRule, PerturbationRule, PerturbedOpt, PlainGradient
from common.training.images import PADDING, ImageBatches, Standardise, averaged_down
from common.training.residual import Recipe, ResidualTraining, cross_entropy
from common.training.rules import RuleTraining
from common.training.schedules import constant, constant_then_linear, linear_decay

RECIPE = Recipe(epochs=3, batch_size=10, learning_rate=0.05, weight_decay=0.01)
ADAPTIVE = Recipe(epochs=3, batch_size=10, schedule=constant)
adam = partial(torch.optim.Adam, lr=1e-3)


def images(count: int = 24, side: int = 8, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, 256, (count, 3, side, side), generator=source, dtype=torch.uint8)
    return drawn, torch.randint(0, 3, (count,), generator=source)


def network(seed: int = 0) -> WideResNet:
    model = WideResNet(10, 1, classes=3, base=4)
    model.initialise(torch.Generator().manual_seed(seed))
    return model


def training(recipe: Recipe = RECIPE, *, kind: type[ResidualTraining] = ResidualTraining, **more: Any) -> Any:
    return kind(network(), ImageBatches(*images()), recipe, torch.Generator().manual_seed(1), **more)


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def test_every_augmented_image_is_a_crop_of_the_padded_one_or_of_its_mirror_image() -> None:
    pictures, targets = images(6)
    batches = ImageBatches(pictures, targets)
    order = torch.tensor([3, 1, 5])
    found, labels = batches.take(order, torch.Generator().manual_seed(2))
    assert torch.equal(labels, targets[order])
    seen = set()
    for place, number in enumerate(order.tolist()):
        padded = functional.pad(pictures[number], (PADDING,) * 4).float()
        matches = [
            (top, left, mirrored)
            for top in range(2 * PADDING + 1)
            for left in range(2 * PADDING + 1)
            for mirrored in (False, True)
            if torch.allclose(found[place], plain(padded, top, left, mirrored, batches), atol=1e-5)
        ]
        assert len(matches) == 1
        seen.add(matches[0])
    assert len(seen) > 1


def plain(padded: torch.Tensor, top: int, left: int, mirrored: bool, batches: ImageBatches) -> torch.Tensor:
    """What a loader that treats one image after the other makes of it."""
    crop = padded[:, top : top + 8, left : left + 8]
    crop = crop.flip(-1) if mirrored else crop
    return batches.standardise(crop[None].byte())[0]


def test_crops_and_flips_are_drawn_evenly() -> None:
    ramp = torch.arange(256).to(torch.uint8).view(1, 1, 16, 16)
    batches = ImageBatches(ramp, torch.tensor([0]))
    found, _ = batches.take(torch.zeros(4000, dtype=torch.int64), torch.Generator().manual_seed(3))
    middle = (found[:, 0, 8, 7:9] * batches.standardise.deviation[0] + batches.standardise.mean[0]).round().long()
    unflipped = (middle[:, 0] < middle[:, 1]).double().mean()
    assert abs(float(unflipped) - 0.5) < 4 * 0.5 / math.sqrt(4000)
    left = middle.amin(1)  # the pixel that is at row 8 and column 7 where nothing is moved
    places = 2 * PADDING + 1
    for moved in (left // 16 - 8, left % 16 - 7):
        counts = torch.bincount(moved + PADDING).tolist()
        assert counts == pytest.approx([4000 / places] * places, abs=4.5 * math.sqrt(4000 / places))


def test_an_epoch_has_every_image_once_normalised_with_channels_last() -> None:
    pictures, targets = images(25)
    batches = ImageBatches(pictures, targets, augment=False)
    parts = list(batches.epoch(10, torch.Generator().manual_seed(0)))
    assert [len(labels) for _, labels in parts] == [10, 10, 5]
    assert all(inputs.is_contiguous(memory_format=torch.channels_last) for inputs, _ in parts)
    joined = torch.cat([inputs for inputs, _ in parts])
    assert torch.allclose(joined.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(joined.std((0, 2, 3), unbiased=False), torch.ones(3), atol=1e-5)
    expected = batches.normalise(pictures)
    assert torch.equal(joined.flatten(1).sort(0).values, expected.flatten(1).sort(0).values)


def test_every_epoch_has_an_order_of_its_own_that_the_generator_decides() -> None:
    batches = ImageBatches(images(25)[0], torch.arange(25))

    def orders(seed: int) -> list[list[int]]:
        source = torch.Generator().manual_seed(seed)
        return [torch.cat([labels for _, labels in batches.epoch(10, source)]).tolist() for _ in range(3)]

    assert orders(0) == orders(0)
    assert len({tuple(order) for order in [*orders(0), *orders(1), list(range(25))]}) == 7


def test_images_without_contrast_are_finite() -> None:
    batches = ImageBatches(torch.full((3, 1, 8, 8), 7, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64))
    inputs, _ = batches.take(torch.arange(3), torch.Generator())
    assert bool(inputs.isfinite().all())


def test_what_are_not_bytes_of_images_is_refused() -> None:
    with pytest.raises(ValueError, match="uint8"):
        ImageBatches(torch.zeros(2, 3, 8, 8), torch.zeros(2))


def perturbed(optimiser: torch.optim.Optimizer) -> PerturbedOpt:
    constants = PerturbationRule(eta=1.0, gamma=0.5)
    return PerturbedOpt(optimiser, constants, steps_per_epoch=3, generator=torch.Generator().manual_seed(2))


def by_rule(rule: Callable[[torch.optim.Optimizer], GradientRule]) -> Any:
    return training(ADAPTIVE, kind=RuleTraining, optimiser=adam, rule=rule)


@pytest.mark.parametrize("make", [training, partial(by_rule, perturbed)])
def test_a_training_resumed_after_any_epoch_ends_with_the_same_bits(make: Callable[[], Any]) -> None:
    straight, states = make(), []
    while not straight.over:
        states.append(copy.deepcopy(straight.state()))
        straight.one_epoch()
    for state in states:
        resumed = make()
        resumed.restore(state)
        while not resumed.over:
            resumed.one_epoch()
        assert getattr(resumed, "step_error", None) == getattr(straight, "step_error", None)
        assert_same_weights(straight.model, resumed.model)


@pytest.mark.parametrize("make", [training, partial(by_rule, perturbed)])
def test_an_epoch_tells_how_far_it_is_before_its_end(make: Callable[[], Any]) -> None:
    told: list[float] = []
    trained = make()
    for _ in range(2):
        trained.one_epoch(told.append)
    assert told == pytest.approx([10 / 24, 20 / 24, 1 + 10 / 24, 1 + 20 / 24])


def test_the_plain_rule_trains_as_without_a_rule_to_the_bit() -> None:
    ours, plain = by_rule(PlainGradient), training(ADAPTIVE, optimiser=adam)
    while not plain.over:
        assert ours.one_epoch() == plain.one_epoch()
        assert 0 < ours.step_error * 24 == pytest.approx(round(ours.step_error * 24))  # every image counts once
    assert_same_weights(ours.model, plain.model)


def test_an_epoch_is_that_of_a_plain_loop() -> None:
    recipe = Recipe(epochs=2, batch_size=8, learning_rate=0.1, momentum=0.9, weight_decay=0.02)
    ours, model = training(recipe), network()
    batches, source = ImageBatches(*images()), torch.Generator().manual_seed(1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.02)
    while not ours.over:
        ours.one_epoch()
    for epoch in range(2):
        for group in optimiser.param_groups:
            group["lr"] = 0.1 * linear_decay(epoch / 2)
        for inputs, targets in batches.epoch(8, source):
            optimiser.zero_grad()
            torch.autograd.backward(functional.cross_entropy(model(inputs), targets))
            optimiser.step()
    for one, other in zip(ours.model.parameters(), model.parameters(), strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-5)


def test_evaluation_takes_running_statistics_and_leaves_them() -> None:
    run = training()
    run.one_epoch()
    before = copy.deepcopy(run.model.state_dict())
    pictures, targets = images(20, seed=4)
    loss, error = run.evaluate(pictures, targets)
    with torch.no_grad():
        logits = run.model.eval()(run.batches.normalise(pictures))
    assert loss == pytest.approx(float(functional.cross_entropy(logits, targets)), rel=1e-5)
    assert error == pytest.approx(float((logits.argmax(1) != targets).double().mean()))
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())


def test_a_training_that_leaves_the_numbers_stands_still() -> None:
    def exploding(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model, inputs, targets) * torch.nan

    run = training(objective=exploding)
    assert math.isnan(run.one_epoch())
    assert run.lost
    assert run.over


def test_another_optimiser_follows_the_schedule_from_its_own_rate() -> None:
    run = training(Recipe(epochs=4), optimiser=lambda parameters: torch.optim.Adam(parameters, lr=0.01))
    run.epoch = 3
    run.one_epoch()
    assert run.optimiser.param_groups[0]["lr"] == pytest.approx(0.01 * linear_decay(0.75))


def test_the_schedule_holds_falls_in_a_straight_line_and_holds_again() -> None:
    assert [linear_decay(done) for done in (0.0, 0.3, 0.5)] == [1, 1, 1]
    assert linear_decay(0.6) - linear_decay(0.7) == pytest.approx(linear_decay(0.7) - linear_decay(0.8))
    assert linear_decay(0.9) == pytest.approx(0.01)
    assert linear_decay(1.0) == pytest.approx(0.01)
    with pytest.raises(ValueError, match="in order"):
        linear_decay(0.5, hold=0.9, end=0.5)


def test_a_schedule_without_a_floor_is_that_with_a_floor_of_nothing_and_without_a_fall_constant() -> None:
    for done in (0.0, 0.3, 0.6, 0.9, 1.0):
        assert constant_then_linear(done, 0.6) == pytest.approx(linear_decay(done, hold=0.6, end=1, floor=0))
        assert constant_then_linear(done, 1) == constant(done)


def test_statistics_may_be_given_as_shares_of_255() -> None:
    pictures, targets = images(9)
    by_shares = Standardise.by_shares(*Split("images", pictures, targets).channel_statistics())
    assert torch.allclose(by_shares(pictures), ImageBatches(pictures, targets).normalise(pictures), atol=1e-5)
    assert Standardise.by_shares([0.5], [0.0])(torch.full((2, 1, 3, 3), 200)).isfinite().all()  # no contrast


def test_images_are_averaged_over_squares_of_pixels() -> None:
    pictures, _ = images(3)
    small = averaged_down(pictures, 4)
    assert torch.equal(small[:, :, 0, 1], pictures[:, :, :2, 2:4].float().mean((2, 3)).round().to(torch.uint8))
    assert averaged_down(pictures, 8) is pictures
    with pytest.raises(ValueError, match="averaged down"):
        averaged_down(pictures, 3)
