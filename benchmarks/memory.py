"""Time and peak memory of Tr H and λ₁ of 25 million parameters: `python -m benchmarks.memory [--threads N]`.

Prints and writes benchmarks/results/memory.json. Seconds are those of the processor, which other work on the machine
does not count into; a gradient over the same data is timed beside.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.workloads import images
from common.files import write_json
from common.hessian import Estimate, Problem, sharpness, trace

RESULTS = Path(__file__).parent / "results" / "memory.json"
EXAMPLES = 256


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    problem = trained()
    gradient = min(seconds(problem.gradient)[0] for _ in range(3))
    print(f"{problem.size:,} parameters, {EXAMPLES} examples, gradient {gradient:.1f} s")
    rows = []
    works: dict[str, Callable[[], Estimate]] = {
        "Tr H to 1 %": lambda: trace(problem, relative_error=0.01),
        "λ₁ to 1 %, basis of 1.5 GB": lambda: (
            sharpness(problem, relative_error=0.01, memory_limit=0, basis_limit=15 * 10**8).estimate
        ),
        "λ₁ to 1 %": lambda: sharpness(problem, relative_error=0.01).estimate,
    }
    for name, work in works.items():
        processor, wall, estimate = seconds(work)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{name}: {estimate}, {estimate.passes} passes; {processor:.0f} s ({wall:.0f} s of the clock), "
            f"{processor / gradient:.0f} g, peak so far {peak:.1f} GB",
            flush=True,
        )
        rows.append(
            {
                "work": name,
                "parameters": problem.size,
                "value": estimate.value,
                "error": estimate.error,
                "converged": estimate.converged,
                "passes": estimate.passes,
                "seconds": round(processor, 1),
                "g": round(processor / gradient, 1),
                "peak_gb": round(peak, 2),
            }
        )
    write_json(options.out, rows)


def trained() -> Problem:
    """784-4096-4096-1200-10, tanh, after a few steps on pictures of ten patterns."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 4096),
        nn.Tanh(),
        nn.Linear(4096, 4096),
        nn.Tanh(),
        nn.Linear(4096, 1200),
        nn.Tanh(),
        nn.Linear(1200, 10),
    )
    inputs, targets = images(EXAMPLES, 1, 28, torch.Generator().manual_seed(0))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):
        optimiser.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimiser.step()
    optimiser.zero_grad()
    return Problem(model, nn.CrossEntropyLoss(), (inputs, targets))


def seconds(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Of the processor and of the clock, and the result."""
    processor, wall = time.process_time(), time.perf_counter()
    result = work()
    return time.process_time() - processor, time.perf_counter() - wall, result


if __name__ == "__main__":
    main()
