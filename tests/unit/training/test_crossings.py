"""When to look whether a training loss is passed."""

import math

import torch

from common.training.crossings import NEAR, LossWatch, near


def test_looks_are_evenly_spread_and_the_last_is_at_the_end_of_the_epoch() -> None:
    watch = LossWatch(steps=9, looks=3)
    assert [step for step in range(1, 10) if watch.due(step)] == [3, 6, 9]


def test_a_look_takes_the_means_of_the_steps_since_the_last_one() -> None:
    watch = LossWatch(steps=4, looks=2)
    for losses in ([1.0, 10.0], [3.0, 30.0]):
        watch.add(torch.tensor(losses))
    assert watch.take() == [2.0, 20.0]
    watch.add(torch.tensor([5.0, 50.0]))
    assert watch.take() == [5.0, 50.0]


def test_only_a_finite_mean_comes_near() -> None:
    assert near(NEAR * 0.1, 0.1)
    assert not near(NEAR * 0.1 + 1e-6, 0.1)
    assert not near(math.nan, 0.1)
    assert not near(math.inf, 0.1)
