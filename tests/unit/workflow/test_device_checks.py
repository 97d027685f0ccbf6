"""What is looked at on a fresh GPU machine, on the device that there is."""

import importlib
import sys
from dataclasses import asdict, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import image_training, toolkit
from common.files import read_json, write_json
from common.workflow import device_checks
from common.workflow.device_checks import (
    BENCHMARKS,
    benchmark,
    checked,
    device_path,
    largest_difference,
    rates_check,
    toolkit_errors,
)
from common.workflow.devices import Device
from common.workflow.state import Folders
from tests.conftest import ROOT, program

CPU = torch.device("cpu")


def test_the_toolkit_in_float32_is_that_of_float64() -> None:
    errors = toolkit_errors(CPU)
    assert set(errors) == {"Hv", "Gv", "largest eigenvalue", "trace"}
    assert 0 < errors["Hv"] < 1e-5
    assert checked("toolkit", lambda: errors)["status"] == "ok"


def test_training_that_goes_on_from_a_checkpoint_ends_where_it_would_have() -> None:
    assert largest_difference(CPU, CPU) == 0.0


def test_every_check_tells_its_numbers(tmp_path: Path) -> None:
    found = list(device_checks.device_checks(CPU, Folders(ROOT, tmp_path)))
    assert [check["status"] for check in found] == ["ok"] * 4
    assert found[1]["difference"] == 0.0
    write_json(tmp_path / "found.json", found)
    assert read_json(tmp_path / "found.json") == found


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
    said = program(tmp_path, "python", "echo 'not tried: torchvision is not installed' >&2; exit 1")
    untried = benchmark("image_training", tmp_path, 10.0)
    assert (untried["status"], untried["reason"]) == ("not tried", "torchvision is not installed")
    rows = """[{"work": "Hessian product", "model": "vgg", "ours_g": 4.5, "peer": "double backward", "ratio": 1.2,
        "target": "≤ 0.9×", "met": false}]"""
    said = program(tmp_path, "python", f"while [ $1 != --out ]; do shift; done; echo '{rows}' > $2")
    assert benchmark("toolkit", tmp_path, 10.0)["reason"] == (
        "below target: Hessian product of vgg 4.5 g, 1.2 of double backward (≤ 0.9×)"
    )


def test_rates_of_a_device_are_kept_for_the_plan(tmp_path: Path) -> None:
    path = device_path(Folders(ROOT, tmp_path))
    check = rates_check(CPU, path, side=64, numbers=2**12)
    found = Device(**read_json(path))
    assert (check["status"], path.relative_to(tmp_path)) == ("ok", Path(".rehearsals", "device.json"))
    assert f"--device {path}" in check["reason"]
    assert (found.name, found.tf32) == ("cpu", found.float32)
    assert all(getattr(found, field.name) > 0 for field in fields(Device) if field.name != "name")
    assert torch.get_float32_matmul_precision() == "highest"


def test_rates_that_cannot_be_measured_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(device_checks, "measured", out_of_memory)
    check = rates_check(CPU, tmp_path / "device.json")
    assert (check["status"], check["reason"]) == ("failed", "RuntimeError: out of memory")
    assert not (tmp_path / "device.json").exists()


def test_benchmarks_of_a_gpu_need_no_peer_that_is_not_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolkit's networks there are those of which a double backward pass is the only peer; rows of a CPU stay."""
    assert {"ensembles", "toolkit", "image_training"} == set(BENCHMARKS)
    assert set(toolkit.ON_A_GPU) < set(toolkit.ALONE)
    assert set(image_training.TARGETS["cuda"].values()) == {5.0}
    rows, placed = tmp_path / "toolkit.json", []
    write_json(rows, [{"model": "vgg", "work": "kept"}, {"model": "vgg", "work": "former", "device": "cuda"}])
    monkeypatch.setattr(sys, "argv", ["toolkit", "--device", "cuda", "--out", str(rows)])

    def workload(name: str, *, count: int | None, device: str) -> SimpleNamespace:
        placed.append((name, device))
        return SimpleNamespace(name=name, targets=[0])

    monkeypatch.setattr(toolkit, "workload", workload)
    monkeypatch.setattr(toolkit, "measured", lambda work, _: [toolkit.row("a product", work.name, 1.0, "≤ 2 g")])
    toolkit.main()
    assert placed == [(name, "cuda") for name in toolkit.ON_A_GPU]
    assert {(row["model"], row["work"], row.get("device")) for row in read_json(rows)} == {
        ("vgg", "kept", None),
        *((name, "a product", "cuda") for name in toolkit.ON_A_GPU),
    }


def test_a_target_that_is_a_ratio_is_neither_met_nor_missed_where_nothing_is_compared() -> None:
    cheap, dear = (toolkit.row("a product", "mlp", ours, "≤ 2 g, ≤ 1×", below=2, at_most=1) for ours in (1.0, 3.0))
    assert (cheap.met, dear.met) == (None, False)
    assert toolkit.table([asdict(cheap)]).endswith("| ≤ 2 g, ≤ 1× | – |")
    compared = [toolkit.row("a product", "mlp", 1.0, "≤ 1×", at_most=1, peer=("peer", g)).met for g in (2.0, 0.5)]
    assert compared == [True, False]


@pytest.mark.parametrize("name", ["ensembles", "estimators", "graph_batching", "grokking", "image_training", "memory"])
def test_a_benchmark_asked_for_help_or_for_what_it_does_not_know_measures_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    for option, code in (("--help", 0), ("--unknown", 2)):
        monkeypatch.setattr(sys, "argv", [name, option])
        with pytest.raises(SystemExit) as ended:
            module.main()
        assert ended.value.code == code


def test_training_on_images_is_not_tried_without_what_its_plain_loop_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(sys, "argv", ["image_training"])
    with pytest.raises(SystemExit, match="not tried: torchvision is not installed"):
        image_training.main()
