"""Whether a device computes as it should, and how fast: what `replicate rehearse --device cuda` looks at first.

Each check is a line with `check`, `status` (`ok`, `failed` or `not tried`), `reason` and its numbers. It needs torch
and what computing needs, and for the benchmarks a checkout; one that needs more is not tried where that is missing.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from common.experiments.process import release
from common.files import write_json
from common.hessian import GGN, Hessian, LinearOperator, Problem, dense, eigenpairs, trace
from common.workflow.devices import Device
from common.workflow.footprint import available_gb
from common.workflow.state import Folders

PRECISION = 1e-4
"""Largest relative error of a product or eigenvalue in float32."""
STANDARD_ERRORS = 4.5
"""How many standard errors an estimate may be off."""
BENCHMARKS = {"ensembles": 60.0, "toolkit": 120.0, "image_training": 150.0}
"""Benchmarks with targets on a GPU, and the seconds that each may take."""
NOT_TRIED = "not tried: "
"""How a benchmark's last words begin where what it needs is not installed."""
CALLS, SECONDS = 10, 2.0
"""A rate is that of the fastest of so many calls, of fewer where they have taken so long."""

Check = dict[str, Any]


def device_checks(device: torch.device, folders: Folders) -> Iterator[Check]:
    """Every check of a device, one after the other; of a GPU its rates, kept in `device_path`, and benchmarks, too."""
    looks: dict[str, Callable[[], Mapping[str, float]]] = {
        "toolkit beside float64 on the CPU": lambda: toolkit_errors(device),
        "two equal trainings": lambda: {"difference": largest_difference(device, device)},
        "a checkpoint of the CPU, resumed": lambda: {"difference": largest_difference(torch.device("cpu"), device)},
        "its checkpoint, resumed on the CPU": lambda: {"difference": largest_difference(device, torch.device("cpu"))},
    }
    for name, look in looks.items():
        yield checked(name, look, exact=name == "two equal trainings")
    if device.type == "cuda":
        yield rates_check(device, device_path(folders))
        for name, seconds in BENCHMARKS.items():
            yield benchmark(name, folders.root, seconds)


def checked(name: str, look: Callable[[], Mapping[str, float]], *, exact: bool = False) -> Check:
    """A check whose numbers are relative errors, none of which may be above `PRECISION`, or 0 for an `exact` one."""
    try:
        numbers = {entry: float(value) for entry, value in look().items()}
    except Exception as error:  # whatever a device does: the other checks go on
        return {"check": name, "status": "failed", "reason": f"{type(error).__name__}: {error}"}
    limit = 0.0 if exact else PRECISION
    off = [f"{entry} {value:.2g}" for entry, value in numbers.items() if not value <= limit]
    reason = f"above {limit:g}: {', '.join(off)}" if off else ""
    return {"check": name, "status": "failed" if off else "ok", "reason": reason, **numbers}


def device_path(folders: Folders) -> Path:
    """Where the GPU that was looked at last is kept, as `replicate plan --device` reads it."""
    return folders.results / ".rehearsals" / "device.json"


def rates_check(device: torch.device, path: Path, **sizes: int) -> Check:
    """The rates of a device, which are kept in a file for the plan; `sizes` are those of `measured`."""
    check: Check = {"check": "rates of products and copies"}
    try:
        found = asdict(measured(device, **sizes))
    except Exception as error:  # whatever a device does: the other checks go on
        return {**check, "status": "failed", "reason": f"{type(error).__name__}: {error}"}
    finally:
        release()
    write_json(path, found)
    return {**check, "status": "ok", "reason": f"`replicate plan --device {path}` reckons with them", **found}


def measured(device: torch.device, side: int = 8192, numbers: int = 2**28) -> Device:
    """A device by its rates in large products, in TF32 where it has that, and in a large copy, read and written.

    Args:
        side: of the square matrices.
        numbers: in float32, that are copied.
    """

    def product(kind: torch.dtype, precision: str = "highest") -> float:
        one, other, into = (torch.ones(side, side, dtype=kind, device=device) for _ in range(3))
        with _precision(precision):
            return 2 * side**3 / _least_seconds(lambda: torch.mm(one, other, out=into), device) / 1e12

    def copy() -> float:
        source, into = (torch.ones(numbers, device=device) for _ in range(2))
        return 2 * source.nbytes / _least_seconds(lambda: into.copy_(source), device) / 1e12

    single, cuda = product(torch.float32), device.type == "cuda"
    return Device(
        name=torch.cuda.get_device_name(device).lower().replace(" ", "-") if cuda else device.type,
        float32=_rounded(single),
        tf32=_rounded(product(torch.float32, "high") if cuda else single),
        float64=_rounded(product(torch.float64)),
        bandwidth=_rounded(copy()),
        memory_gb=_rounded(available_gb(device)),
    )


@contextmanager
def _precision(of_products: str) -> Iterator[None]:
    """Within: `highest` multiplies matrices in float32 as such, `high` in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(of_products)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _least_seconds(work: Callable[[], object], device: torch.device) -> float:
    taken: list[float] = []
    while len(taken) < CALLS and sum(taken) < SECONDS:
        start = _now(device)
        work()
        taken.append(_now(device) - start)
    return min(taken)


def _now(device: torch.device) -> float:
    """Seconds, once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def toolkit_errors(device: torch.device) -> dict[str, float]:
    """Relative errors of what the toolkit finds in float32 on a device, beside the dense matrices in float64.

    A stochastic estimate counts with what lies beyond its own error bar.
    """
    exact, found = _problem(torch.device("cpu"), torch.float64), _problem(device, torch.float32)
    hessian, ggn = (dense(kind(exact)) for kind in (Hessian, GGN))
    vector = torch.linspace(-1, 1, len(hessian), dtype=torch.float64)
    top = torch.linalg.eigvalsh(hessian).abs().max()
    estimate = trace(found, relative_error=0.02, seed=1)
    beyond = max(abs(estimate.value - hessian.trace().item()) - STANDARD_ERRORS * estimate.standard_error, 0.0)
    return {
        "Hv": _relative(_product(Hessian(found), vector), hessian @ vector),
        "Gv": _relative(_product(GGN(found), vector), ggn @ vector),
        "largest eigenvalue": abs(abs(eigenpairs(Hessian(found), relative_error=1e-5).values[0]) / top.item() - 1),
        "trace": beyond / abs(hessian.trace().item()),
    }


def _problem(device: torch.device, kind: torch.dtype) -> Problem:
    """The cross-entropy of a small tanh network on made data."""
    source = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(kind)
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=source) / 2)
    inputs = torch.randn(50, 6, generator=source).to(kind)
    targets = torch.arange(50) % 3
    return Problem(model.to(device), nn.CrossEntropyLoss(), (inputs.to(device), targets.to(device)))


def _product(operator: LinearOperator, vector: torch.Tensor) -> torch.Tensor:
    return (operator @ vector.to(operator.problem.parameters[0])).cpu().double()


def _relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found - exact).norm() / exact.norm())


def largest_difference(first: torch.device, second: torch.device) -> float:
    """Relative difference of weights after training on two devices.

    Where both are the same, of two trainings there; else of one on the second throughout and one that begins on the
    first, is saved, and goes on from there on the second.
    """
    other = _trained(second, second, 20) if first == second else _trained(first, second, 20)
    return _relative(other, _trained(second, second, 20))


def _trained(first: torch.device, second: torch.device, steps: int) -> torch.Tensor:
    """Weights of a small convolutional network after steps of AdamW, half of them on each device."""
    model = _network()
    state: dict[str, Any] = {}
    for place, device in enumerate((first, second)):
        model = model.to(device)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if state:
            with tempfile.NamedTemporaryFile(suffix=".pt") as file:
                torch.save(state, file.name)
                saved = torch.load(file.name, map_location="cpu", weights_only=True)
            model.load_state_dict(saved["model"])
            optimiser.load_state_dict(saved["optimiser"])
        source = torch.Generator().manual_seed(1 + place)
        for _ in range(steps // 2):
            inputs = torch.randn(16, 3, 8, 8, generator=source).to(device)
            targets = torch.randint(5, (16,), generator=source).to(device)
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimiser.step()
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    return torch.cat([weights.detach().flatten().cpu().double() for weights in model.parameters()])


def _network() -> nn.Module:
    source = torch.Generator().manual_seed(0)
    convolutions = (nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 8, 3), nn.Tanh())
    model = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(128, 5))
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(torch.randn(weights.shape, generator=source) / 5)
    return model


def benchmark(name: str, root: Path, seconds: float) -> Check:
    """A benchmark on the GPU: which of its rows miss their target, or why it was not tried."""
    check: Check = {"check": f"benchmarks/{name}", "status": "failed"}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows.json")
        command = [sys.executable, "-m", f"benchmarks.{name}", "--device", "cuda", "--out", str(out)]
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {**check, "reason": f"it was not done after {seconds:g} s"}
        if done.returncode or not out.is_file():
            said = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
            status = "not tried" if said.startswith(NOT_TRIED) else "failed"
            return {**check, "status": status, "reason": said.removeprefix(NOT_TRIED)}
        rows = [row for row in json.loads(out.read_text()) if row["target"]]
    missed = [_missed(row) for row in rows if row["met"] is False]
    status, reason = ("failed", f"below target: {', '.join(missed)}") if missed else ("ok", "")
    return {**check, "status": status, "reason": reason, "rows": rows}


def _missed(row: Mapping[str, Any]) -> str:
    """A row below its target; those of the toolkit are in gradients and beside what a peer takes."""
    if "network" in row:
        return f"{row['network']} {row['ratio']:.3g} (≥ {row['target']:g})"
    beside = f", {row['ratio']:.3g} of {row['peer']}" if row["ratio"] else ""
    return f"{row['work']} of {row['model']} {row['ours_g']:.3g} g{beside} ({row['target']})"
