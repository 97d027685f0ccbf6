"""How fast this machine is: seconds of small pieces of work such as the experiments do, measured once a day.

    python -m common.experiments.calibration      measure, keep and print

Every run keeps the figure of its machine. A time that was measured on one machine is carried over to another by
`ratio`, one figure for all experiments: a weighted geometric mean of the ratios of the kinds of work.
"""

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import metadata
from pathlib import Path

from common.experiments.digests import short_digest
from common.files import peek_json, read_json, write_json

REFERENCE = Path(__file__).with_name("reference_machine.json")
"""The machine whose core minutes stand in config.yaml."""

VALID = timedelta(days=1)
"""A virtual machine may lie on another host tomorrow."""
LONGEST = 120.0
"""Seconds that a calibration may take, the import of torch on a slow disk included."""
ROUNDS = 60
"""Each kind of work is timed so often; the fastest counts, which a busy neighbour disturbs least."""


@dataclass(frozen=True)
class Calibration:
    """Processor seconds of each kind of work on one core of a machine.

    Attributes:
        machine: what tells it from others: processor, cores, versions, instructions.
        seconds: by kind of work (`WORK`); empty where nothing could be measured.
        steps: seconds of what the workflow does beside the experiments (`STEPS`); known of the reference alone.
    """

    machine: Mapping[str, str]
    date: str
    seconds: Mapping[str, float]
    steps: Mapping[str, float] = field(default_factory=dict)


STEPS = ("snakemake", "data", "start", "analyse", "page")
"""Start of Snakemake, check of a data set that is there, start of a job's process, analysis and page of a paper."""


WEIGHTS = {
    "small_operations": 0.3,
    "elementwise": 0.2,
    "layer_products": 0.15,
    "batched_products": 0.15,
    "large_products": 0.1,
    "convolutions": 0.1,
}
"""About what the experiments at laptop scale spend their time on.

With products 2.5 times as slow, convolutions 3.4, element by element 1.5 times and small operations as before (MKL and
oneDNN kept from AVX), the figure is 1.80; nine experiments took 1.75 times their processor time in all, five of them
1.7 to 2.0, the others 0.9 (graphs), 1.0 (a quadratic), 1.1 (ten units) and 2.5 (full batches).
"""


def ratio(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How many times as long a machine takes as another one, by the kinds of work that both were timed on.

    Args:
        one: seconds of each kind of work; without any kind in common the machines count as equal.
    """
    shared = [kind for kind in WEIGHTS if kind in one and kind in other]
    total = sum(WEIGHTS[kind] for kind in shared)
    return (
        math.exp(sum(WEIGHTS[kind] * math.log(one[kind] / other[kind]) for kind in shared) / total) if shared else 1.0
    )


def reference() -> Calibration:
    """The machine on which the `minutes` of config.yaml count."""
    return Calibration(**read_json(REFERENCE))


@cache
def here() -> Calibration:
    """This machine, as measured within a day, else measured now by a process of its own (about four seconds)."""
    if (found := _kept()) is not None:
        return found
    command = [sys.executable, "-m", "common.experiments.calibration"]
    with suppress(OSError, subprocess.SubprocessError, ValueError, TypeError):
        done = subprocess.run(
            command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=LONGEST, check=True
        )
        return Calibration(**json.loads(done.stdout))
    return Calibration(machine(), "", {})


def machine() -> dict[str, str]:
    """What a calibration holds for: another processor, torch or set of instructions asks for a new one."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "none"
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "torch": torch,
        "python": platform.python_version(),
        "instructions": os.environ.get("ATEN_CPU_CAPABILITY", "all"),
    }


def cpu_facts() -> dict[str, str]:
    """What Linux says of the first processor; empty on other systems."""
    facts: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    return facts


def _processor() -> str:
    """Name, family and model: a virtual machine may call two generations by one name."""
    facts = cpu_facts()
    if "model name" not in facts:
        return platform.processor() or platform.machine()
    return f"{facts['model name']}, family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}"


def step_seconds(step: str, *, of: str = "") -> float:
    """Processor seconds of a step of the workflow (`STEPS`) on this machine.

    As it took here the last time, else as on the reference machine.

    Args:
        of: whose step it is, such as a scale and a paper.
    """
    noted = noted_step(step, of=of)
    if noted is not None:
        return noted
    known = reference()
    return known.steps[step] * ratio(here().seconds, known.seconds)


def noted_step(step: str, *, of: str = "") -> float | None:
    """Processor seconds that a step took here the last time; None where it was never seen."""
    with suppress(OSError, LookupError, TypeError, ValueError):
        return float(peek_json(_place().with_suffix("") / f"{_step_name(step, of)}.json")["seconds"])
    return None


def note_step(step: str, *, of: str = "") -> None:
    """Keep what this process and its children have taken so far as the time of a step, if the cache can be written."""
    with suppress(OSError):
        write_json(_place().with_suffix("") / f"{_step_name(step, of)}.json", {"seconds": sum(os.times()[:4])})


def _step_name(step: str, of: str) -> str:
    return f"{step}-{of.replace('/', '-')}" if of else step


def _place() -> Path:
    from common.datasets.store import cache_folder  # with it come decoders, which few commands need

    return cache_folder() / "calibration" / f"{short_digest(machine())}.json"


def _kept() -> Calibration | None:
    with suppress(OSError, TypeError, ValueError):
        found = Calibration(**peek_json(_place()))
        if found.seconds.keys() == WORK.keys() and datetime.now(UTC) - datetime.fromisoformat(found.date) < VALID:
            return found
    return None


def measure() -> Calibration:
    """Time every kind of work in this process, on one thread."""
    import torch

    from common.experiments.process import keep_freed

    keep_freed()  # as every job does
    torch.set_num_threads(1)
    pieces = {kind: prepare() for kind, prepare in WORK.items()}
    best = dict.fromkeys(WORK, math.inf)
    for _ in range(ROUNDS):
        for kind, piece in pieces.items():
            started = time.process_time()
            piece()
            best[kind] = min(best[kind], time.process_time() - started)
    return Calibration(machine(), datetime.now(UTC).isoformat(timespec="seconds"), best)


# The kinds of work: each function prepares one and returns the piece that is timed, about 4 ms of a fast core.


def _large_products() -> Callable[[], None]:
    import torch

    a = torch.linspace(-1, 1, 512 * 512).reshape(512, 512)

    def piece() -> None:
        a @ a

    return piece


def _layer_products() -> Callable[[], None]:
    """Of a layer of a perceptron, forwards and backwards."""
    import torch

    images, weight = torch.linspace(-1, 1, 200 * 784).reshape(200, 784), torch.linspace(-1, 1, 78400).reshape(784, 100)

    def piece() -> None:
        for _ in range(3):
            (images @ weight) @ weight.T
            images.T @ (images @ weight)

    return piece


def _batched_products() -> Callable[[], None]:
    """Of an ensemble, and of attention: many small matrices."""
    import torch

    a = torch.linspace(-1, 1, 64 * 32 * 64).reshape(64, 32, 64)

    def piece() -> None:
        for _ in range(12):
            torch.bmm(torch.bmm(a, a.mT), a)

    return piece


def _convolutions() -> Callable[[], None]:
    import torch

    images = torch.linspace(-1, 1, 32 * 16 * 256).reshape(32, 16, 16, 16)
    kernel = torch.linspace(-1, 1, 16 * 16 * 9).reshape(16, 16, 3, 3).requires_grad_()

    def piece() -> None:
        for _ in range(3):
            loss = torch.nn.functional.conv2d(images, kernel, padding=1).square().mean()
            torch.autograd.grad(loss, kernel)

    return piece


def _elementwise() -> Callable[[], None]:
    """In arrays that the caches hold, and in larger ones."""
    import torch

    arrays = [torch.linspace(-3, 3, 20_000)] * 10 + [torch.linspace(-3, 3, 400_000)]

    def piece() -> None:
        for array in arrays:
            (torch.nn.functional.gelu(array) + torch.tanh(array) * array).sum()

    return piece


def _small_operations() -> Callable[[], None]:
    """A training step of ten units: all overhead of torch and Python."""
    import torch

    data = torch.linspace(-1, 1, 40).reshape(10, 4)
    weights = [torch.linspace(-1, 1, 40).reshape(4, 10), torch.linspace(-1, 1, 10).reshape(10, 1)]

    def piece() -> None:
        parameters = [weight.clone().requires_grad_() for weight in weights]
        for _ in range(30):
            loss = (torch.tanh(data @ parameters[0]) @ parameters[1]).square().mean()
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= 0.01 * gradient

    return piece


WORK: Mapping[str, Callable[[], Callable[[], None]]] = {
    "large_products": _large_products,
    "layer_products": _layer_products,
    "batched_products": _batched_products,
    "convolutions": _convolutions,
    "elementwise": _elementwise,
    "small_operations": _small_operations,
}
"""The kinds of work that are timed."""


def main() -> None:
    """Measure, keep for later processes, and print."""
    found = asdict(measure())
    with suppress(OSError):
        write_json(_place(), found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
