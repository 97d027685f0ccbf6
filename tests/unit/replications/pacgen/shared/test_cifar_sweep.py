"""Colours are standardised channel by channel."""

import pytest
import torch

from replications.pacgen.shared.cifar_sweep import CIFAR


def test_colours_are_standardised_channel_by_channel() -> None:
    images = torch.tensor([10, 100, 250], dtype=torch.uint8).view(1, 3, 1, 1)
    statistics = (0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)
    expected = [(value / 255 - m) / d for value, (m, d) in zip((10, 100, 250), statistics, strict=True)]
    assert CIFAR(images).flatten().tolist() == pytest.approx(expected, rel=1e-5)
