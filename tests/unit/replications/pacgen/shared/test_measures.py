"""The median of an even number of draws."""

import torch

from replications.pacgen.shared.measures import _median


def test_the_median_of_two_draws_lies_between_them():
    assert float(_median(torch.tensor([1.0, 3.0]))) == 2.0
    assert float(_median(torch.tensor([5.0, 1.0, 2.0]))) == 2.0
