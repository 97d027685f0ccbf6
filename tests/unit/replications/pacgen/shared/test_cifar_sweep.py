"""Colours are standardised channel by channel."""

import pytest
import torch

from replications.pacgen.shared.cifar_sweep import DEVIATION, MEAN, standardise


def test_colours_are_standardised_channel_by_channel() -> None:
    images = torch.tensor([10, 100, 250], dtype=torch.uint8).view(1, 3, 1, 1)
    expected = [(value / 255 - m) / d for value, m, d in zip((10, 100, 250), MEAN, DEVIATION, strict=True)]
    assert standardise(images).flatten().tolist() == pytest.approx(expected, rel=1e-5)
