"""Slices through the loss of residual networks."""

import math

from replications.sgd_stability import loss_slices
from tests.unit.replications.images import random_images
from tests.unit.replications.resuming import same_when_resumed


def test_a_residual_network_that_stops_and_goes_on_gives_the_same_slice() -> None:
    settings = {"side": 8, "depth": 8, "width": 2, "batch_size": 8, "epochs": 3, "points": 5, "slice_images": 16}
    run = loss_slices.Parameters(training_images=20, **settings)
    whole = same_when_resumed(lambda context: loss_slices.run([run], context), data=random_images(3, 8))
    middle = next(row for row in whole.rows if row["kind"] == "slice" and row["a"] == row["b"] == 0)
    assert math.isfinite(middle["loss"])
    assert sum(row["kind"] == "slice" for row in whole.rows) == 25
