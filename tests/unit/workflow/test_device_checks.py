"""What is looked at on a fresh GPU machine, on the device that there is."""

from pathlib import Path

import pytest
import torch

from common.workflow import device_checks
from common.workflow.device_checks import benchmark, checked, largest_difference, toolkit_errors
from tests.conftest import ROOT, program

CPU = torch.device("cpu")


def test_the_toolkit_in_float32_is_that_of_float64() -> None:
    errors = toolkit_errors(CPU)
    assert set(errors) == {"Hv", "Gv", "largest eigenvalue", "trace"}
    assert 0 < errors["Hv"] < 1e-5
    assert checked("toolkit", lambda: errors)["status"] == "ok"


def test_training_that_goes_on_from_a_checkpoint_ends_where_it_would_have() -> None:
    assert largest_difference(CPU, CPU) == 0.0


def test_every_check_tells_its_numbers() -> None:
    found = list(device_checks.device_checks(CPU, ROOT))
    assert [check["status"] for check in found] == ["ok"] * 4
    assert found[1]["difference"] == 0.0


def test_what_is_off_or_raises_is_said() -> None:
    off = checked("toolkit", lambda: {"Hv": 0.01, "Gv": 1e-6, "trace": float("nan")})
    assert (off["status"], off["reason"]) == ("failed", "above 0.0001: Hv 0.01, trace nan")
    assert checked("equal", lambda: {"difference": 1e-9}, exact=True)["reason"] == "above 0: difference 1e-09"
    assert checked("broken", lambda: {"x": 1 / 0})["reason"] == "ZeroDivisionError: division by zero"


def test_rows_of_a_benchmark_that_miss_their_target_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = '[{"network": "mlp", "ratio": 12.3, "target": 30, "met": false}, {"network": "cnn", "target": null}]'
    said = program(tmp_path, "python", f"while [ $1 != --out ]; do shift; done; echo '{rows}' > $2")
    monkeypatch.setattr(device_checks.sys, "executable", str(said))
    assert benchmark("ensembles", tmp_path, 10.0)["reason"] == "below target: mlp 12.3 (≥ 30)"
    said = program(tmp_path, "python", "echo Traceback >&2; echo 'RuntimeError: no kernel' >&2; exit 1")
    assert benchmark("ensembles", tmp_path, 10.0)["reason"] == "RuntimeError: no kernel"
