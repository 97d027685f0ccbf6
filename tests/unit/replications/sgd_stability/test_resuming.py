"""Runs that are stopped and go on."""

from typing import Any

import pytest

from common.datasets import Dataset
from replications.sgd_stability import (
    alignment,
    alignment_networks,
    bad_minimum,
    controls,
    edge_of_stability,
    escape,
    flat_interpolants,
    gd_against_sgd,
    gd_minimum,
    landscape_shift,
    large_batch,
    memorising_minimum,
    selection_diagram,
    size_independence,
)
from tests.unit.replications.images import random_images
from tests.unit.replications.resuming import same_when_resumed
from tests.unit.replications.sgd_stability import test_large_batch
from tests.unit.replications.sgd_stability.samples import PARITY, TINY, dark_images, digits_context, records
from tests.unit.replications.sgd_stability.test_memorising_minimum import SMALL

pytest.importorskip("numba")

DARK, TINIEST, ALONE = dark_images(), random_images(1, 4), {**SMALL, "seeds": 1}
RUNS: dict[str, tuple[Any, Dataset, dict[str, Any]]] = {
    "edge_of_stability": (edge_of_stability, DARK, {**TINY, "learning_rate": 0.3, "longest_time": 90,
                                                    "measure_every": 15}),
    "selection_diagram": (selection_diagram, DARK, {**TINY, "stopping_loss": 1e-9, "learning_rate": 0.3,
                                                    "batch_size": 4, "longest_time": 450}),
    "gd_minimum": (gd_minimum, DARK, {**PARITY, "finding_rate": 0.004, "finding_loss": 1e-20, "stopping_loss": 1e-20,
                                      "learning_rate": 0.002, "longest": 2500}),
    "escape": (escape, DARK, {**PARITY, "batch_size": 1, "learning_rate": 0.02, "trajectories": 5, "steps": 4,
                              "shortest": 5, "longest": 2100, "stopping_loss": 1e-20}),
    "escape_that_settles": (escape, DARK, {**PARITY, "batch_size": 4, "learning_rate": 0.01, "trajectories": 5,
                                           "steps": 4, "shortest": 5, "longest": 2100, "stopping_loss": 1e-9}),
    "controls": (controls, DARK, {**TINY, "stopping_loss": 1e-9, "hidden_layers": 1, "batch_size": 4, "longest": 1500}),
    "gd_against_sgd": (gd_against_sgd, DARK, {"dataset": "mnist", "network": "fully_connected", "width": 6, "epochs": 4,
                                              "training_images": 20, "validation_images": 20,
                                              "batch_size": 5, "record_times": 4}),
    "large_batch": (large_batch, random_images(1, 8), {**test_large_batch.TINY, "batch_size": 8}),
    "planted": (bad_minimum, TINIEST, {"planted": True, "hidden": (10,), "planting_steps": 50, "steps": 2000,
                                       "stopping_loss": 1e-9}),
    "gd": (memorising_minimum, TINIEST, {**ALONE, "method": "gd", "weight_decay": 0.05}),
    "sgd": (memorising_minimum, TINIEST, {**ALONE, "method": "sgd"}),
    "sam": (memorising_minimum, TINIEST, {**ALONE, "method": "sam", "radii": (0.05, 0.1)}),
    "interpolant": (flat_interpolants, TINIEST, {"dimension": 4, "examples": 6, "width": 8, "steps": 400,
                                                 "fresh_examples": 20}),
    "alignment": (alignment, TINIEST, {"examples": 20, "width": 5, "batch_size": 4, "measured": (0, 3, 9),
                                       "learning_rate": 0.05}),
    "size": (size_independence, TINIEST, {"dataset": "mnist", "examples": 20, "width": 5, "longest": 30, "often": 10,
                                          "trajectory": 5}),
    "networks": (alignment_networks, TINIEST, {"dataset": "mnist", "kind": "fully_connected", "examples": 10,
                                               "width": 5, "batch_size": 5, "measured": (0, 20, 40)}),
    "shift": (landscape_shift, TINIEST, {"examples": 10, "width": 5, "batch_size": 5, "longest": 30, "often": 10}),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_run_continued_from_any_checkpoint_ends_with_the_same_records(name: str):
    experiment, data, setting = RUNS[name]
    start = digits_context()
    if name.startswith("escape"):
        records(gd_minimum, start, **PARITY)
    same_when_resumed(
        lambda context: records(experiment, context, **setting), times=3, data=data, needed=start.artifacts
    )
