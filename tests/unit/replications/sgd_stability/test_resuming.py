"""Runs that are stopped and go on."""

from typing import Any

import pytest

from common.experiments.context import OutOfTime
from replications.sgd_stability import alignment as alignment_experiment
from replications.sgd_stability import (
    controls,
    edge_of_stability,
    escape,
    flat_interpolants,
    gd_against_sgd,
    gd_minimum,
    memorising_minimum,
    selection_diagram,
    size_independence,
)
from tests.context import MemoryContext
from tests.unit.replications.sgd_stability.samples import PARITY, TINY, digits_context, images, records
from tests.unit.replications.sgd_stability.test_memorising_minimum import SMALL

pytest.importorskip("numba")

LOOPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "edge_of_stability": (edge_of_stability, {**TINY, "learning_rate": 0.3, "longest_time": 90, "measure_every": 15}),
    "selection_diagram": (selection_diagram, {**TINY, "stopping_loss": 1e-9, "learning_rate": 0.3, "batch_size": 4,
                                              "longest_time": 450}),
    "gd_minimum": (gd_minimum, {**PARITY, "stopping_loss": 1e-20, "learning_rate": 0.002, "longest": 2500}),
    "escape": (escape, {**PARITY, "batch_size": 1, "learning_rate": 0.02, "trajectories": 5, "steps": 4,
                        "longest": 2100, "stopping_loss": 1e-20}),
    "controls": (controls, {**TINY, "stopping_loss": 1e-9, "hidden_layers": 1, "batch_size": 4, "longest": 1500}),
    "gd_against_sgd": (gd_against_sgd, {"dataset": "mnist", "network": "fully_connected", "width": 6, "epochs": 4,
                                        "training_images": 20, "batch_size": 5, "record_times": 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_run_continued_from_any_checkpoint_ends_with_the_same_records(name: str):
    experiment, setting = LOOPS[name]
    start = digits_context()
    if name == "escape":
        records(gd_minimum, start, **PARITY, stopping_loss=1e-6)
    whole = digits_context(needed=start.artifacts)
    records(experiment, whole, **setting)
    assert len(whole.checkpoints) >= 2
    for begun in whole.checkpoints[:: max(1, len(whole.checkpoints) // 3)]:
        later = digits_context(needed=start.artifacts, begun=begun)
        records(experiment, later, **setting)
        assert later.rows == whole.rows


RUNS = {
    "gd": (memorising_minimum, {"method": "gd", "weight_decay": 0.05}),
    "sgd": (memorising_minimum, {"method": "sgd"}),
    "sam": (memorising_minimum, {"method": "sam", "radii": (0.05, 0.1)}),
    "interpolant": (flat_interpolants, {"dimension": 4, "examples": 6, "width": 8, "steps": 400, "fresh_examples": 20}),
    "alignment": (
        alignment_experiment,
        {"examples": 20, "width": 5, "batch_size": 4, "measured": (0, 3, 9), "learning_rate": 0.05},
    ),
    "size": (
        size_independence,
        {"dataset": "mnist", "examples": 20, "width": 5, "longest": 30, "often": 10, "trajectory": 5},
    ),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_is_stopped_and_started_again_records_the_same_bits(kind: str) -> None:
    module, settings = RUNS[kind]
    if module is memorising_minimum:
        settings = SMALL | settings
    run = module.Parameters(**settings)  # type: ignore[attr-defined]
    whole = MemoryContext(data=images())
    module.run([run], whole)  # type: ignore[attr-defined]
    first = MemoryContext(data=images(), stop_at=2)
    with pytest.raises(OutOfTime):
        module.run([run], first)  # type: ignore[attr-defined]
    second = MemoryContext(data=images(), begun=first.checkpoints[-1])
    module.run([run], second)  # type: ignore[attr-defined]
    assert second.rows == whole.rows
    assert len(whole.rows) > 0
