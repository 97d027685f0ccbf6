"""Slices through the loss of residual networks."""

import math

import pytest
import torch

from common.datasets import Dataset, Split
from common.experiments.context import OutOfTime
from replications.sgd_stability import loss_slices
from tests.unit.replications.sgd_stability.samples import in_arm


def test_a_residual_network_that_stops_and_goes_on_gives_the_same_slice() -> None:
    generator = torch.Generator().manual_seed(5)
    images = torch.randint(0, 256, (24, 3, 8, 8), generator=generator, dtype=torch.uint8)
    split = Split("pictures/train", images, torch.randint(0, 10, (24,), generator=generator))
    settings = {"side": 8, "depth": 8, "width": 2, "batch_size": 8, "epochs": 3, "points": 5, "slice_images": 16}
    run = loss_slices.Parameters(training_images=20, **settings)

    pictures = Dataset("pictures", "random pictures", 10, "none", split, split)
    whole = in_arm("loss_slices", "with", data=pictures)
    broken = in_arm("loss_slices", "with", data=pictures, stop_at=2)
    loss_slices.run([run], whole)
    with pytest.raises(OutOfTime):
        loss_slices.run([run], broken)
    again = in_arm("loss_slices", "with", data=pictures, begun=broken.checkpoints[-1])
    loss_slices.run([run], again)
    assert again.rows == whole.rows
    middle = next(row for row in whole.rows if row["kind"] == "slice" and row["a"] == row["b"] == 0)
    assert math.isfinite(middle["loss"])
    assert sum(row["kind"] == "slice" for row in whole.rows) == 25
