"""Subsets and splits by named seeds, and what becomes of pixels."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from common.datasets import Split
from common.datasets.splits import permutation
from common.errors import UserError


def make(count: int = 50, name: str = "small/train") -> Split:
    inputs = torch.arange(count * 2 * 3, dtype=torch.int64).remainder(256).to(torch.uint8).view(count, 2, 3, 1)
    return Split(name, inputs, torch.arange(count))


@given(small=st.integers(1, 50), large=st.integers(1, 50), seed=st.integers(0, 2**62))
def test_subsets_of_one_seed_are_nested(small: int, large: int, seed: int) -> None:
    small, large = sorted((small, large))
    inner, outer = make().subset(small, seed), make().subset(large, seed)
    assert torch.equal(inner.targets, outer.targets[:small])
    assert torch.equal(inner.inputs, make().inputs[inner.targets])
    assert len(set(outer.targets.tolist())) == large


def test_other_seeds_and_other_splits_draw_otherwise() -> None:
    drawn = {tuple(make(name=name).subset(20, seed).targets.tolist()) for name in "ab" for seed in (0, 1, "0x", -1)}
    assert len(drawn) == 8


def test_a_permutation_is_the_same_on_every_machine() -> None:
    assert permutation("mnist/train 0", 8).tolist() == [6, 4, 1, 2, 3, 0, 5, 7]
    assert sorted(permutation("x", 1000).tolist()) == list(range(1000))


def test_every_position_is_equally_likely() -> None:
    counts = torch.zeros(10, 10)
    for seed in range(2000):
        counts[torch.arange(10), permutation(f"uniform {seed}", 10)] += 1
    chi_squared = float(((counts - 200) ** 2 / 200).sum())
    assert chi_squared < 81 + 5 * (2 * 81) ** 0.5  # 81 degrees of freedom


def test_a_split_is_disjoint_complete_and_begins_with_the_subset() -> None:
    first, rest = make().split(30, seed=3)
    assert torch.equal(first.targets, make().subset(30, seed=3).targets)
    assert sorted(first.targets.tolist() + rest.targets.tolist()) == list(range(50))
    assert len(make().split(50, seed=3)[1]) == 0


@pytest.mark.parametrize("count", [0, -1, 51])
def test_a_subset_that_cannot_be_drawn_is_one_sentence(count: int) -> None:
    with pytest.raises(UserError, match=rf"small/train has 50 examples, not {count}; choose 1 to 50\."):
        make().subset(count, seed=0)


def test_floats_run_from_zero_to_one_and_leave_the_pixels_alone() -> None:
    split = Split("s", torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.tensor([0]))
    assert split.as_float(torch.float64).flatten().tolist() == [0, 0.2, 1]
    assert split.inputs.flatten().tolist() == [0, 51, 255]
    floats = Split("f", torch.tensor([[3.0]]), torch.tensor([0]))
    assert floats.as_float().item() == 3.0
    assert floats.standardised(1, 2).item() == 1.0
    assert floats.inputs.item() == 3.0


def test_standardised_by_its_own_statistics_has_mean_zero_and_deviation_one_in_each_channel() -> None:
    split = make()
    values = split.standardised(*split.channel_statistics(), dtype=torch.float64)
    for channel in range(2):
        assert abs(values[:, channel].mean()) < 1e-12
        assert abs(values[:, channel].std(correction=0) - 1) < 1e-12


@pytest.mark.parametrize(("mean", "std"), [((0.1, 0.2, 0.3), 1.0), (0.0, 0.0), (0.0, (1.0, -1.0))])
def test_statistics_that_do_not_fit_are_refused(mean: float, std: float) -> None:
    with pytest.raises(ValueError, match="small/train: 1 or 2"):
        make().standardised(mean, std)


def test_inputs_and_targets_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="3 inputs but 2 targets"):
        Split("s", torch.zeros(3, 1), torch.zeros(2, dtype=torch.int64))
