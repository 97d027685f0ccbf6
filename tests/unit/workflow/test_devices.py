"""Seconds of counted operations: on the core whose pieces of work were timed, and on a GPU by its data sheet."""

from pathlib import Path

import pytest
import torch

from common.errors import UserError
from common.experiments.calibration import WORK, reference
from common.experiments.operations import CountedOperations
from common.files import write_json
from common.workflow.devices import DEVICES, LAUNCH, PIECES, Rates, core_seconds, device, gpu_seconds, rates

CORE = Rates(1e-6, 1e-10, 2e-11, 1e-11, 3e-11, 4e-11)


def test_the_pieces_of_a_calibration_hold_the_operations_that_are_stated() -> None:
    assert PIECES.keys() == WORK.keys()
    for name, prepare in WORK.items():
        piece = prepare()
        with CountedOperations(torch.device("cpu")) as counted:
            piece()
        assert dict(counted.amounts) == PIECES[name], name


def test_the_pieces_take_by_the_rates_what_they_were_timed_at() -> None:
    seconds = reference().seconds
    for name in PIECES.keys() - {"large_products"}:  # whose rate is the peak that others are held against
        assert core_seconds(PIECES[name], rates(seconds)) == pytest.approx(seconds[name], rel=0.01), name


def test_on_a_core_operations_bytes_and_products_add_up_and_float64_counts_twice() -> None:
    amounts = {"operations": 1e6, "bytes": 1e10, "products": 1e11, "products_double": 1e11, "convolutions": 1e10}
    assert core_seconds(amounts, CORE) == pytest.approx(1 + 1 + 2 + 4 + 0.4)


def test_on_a_gpu_it_takes_at_least_the_longer_of_host_and_peak_and_at_most_both_in_turn() -> None:
    h100 = DEVICES["h100"]
    at_peak = {"products": 66.9e12, "convolutions": 494.7e12, "bytes": 3.35e12, "batched_products_double": 66.9e12}
    for operations in (1e6, 1e7):
        centre, lower, upper = gpu_seconds({**at_peak, "operations": operations}, h100, CORE)
        assert lower == pytest.approx(max(operations * 1e-6, 4.0))
        assert upper == pytest.approx(LAUNCH * operations * 1e-6 + 2 + 4 + 1 + 3)
        assert centre**2 == pytest.approx(lower * upper)


def test_a_gpu_is_one_of_the_table_or_of_a_file_that_a_rehearsal_measured(tmp_path: Path) -> None:
    measured = {"name": "a40", "float32": 37.4, "tf32": 74.8, "float64": 0.58, "bandwidth": 0.7, "memory_gb": 48}
    path = tmp_path / "device.json"
    write_json(path, measured)
    found = device(str(path))
    assert (found.name, found.tf32, found.memory_gb) == ("a40", 74.8, 48)
    assert device("h100") == DEVICES["h100"]
    with pytest.raises(UserError, match=r"choose one of v100, .*, or a file that a rehearsal measured"):
        device("h1000")
    for wrong in ({"name": "a40"}, {**measured, "float64": 0.0}, {**measured, "watts": 300.0}):
        write_json(path, wrong)
        with pytest.raises(UserError, match="a GPU has name, float32, tf32"):
            device(str(path))
