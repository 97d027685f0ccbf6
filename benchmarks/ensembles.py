"""Ensembles beside a loop of ordinary modules: `python -m benchmarks.ensembles [--threads N] [--device cuda]`.

32 networks 784-100-100-10 take one step of plain SGD with the squared loss, each on its own batch; on a CPU five
networks `MnistConvNet` take the gradients of the cross-entropy, too. The ratio is that of neighbouring calls (loop,
ensemble, loop, …), its median over the repetitions, so that a busy machine slows both alike; with one thread the
processor's time is taken. Prints a table and writes benchmarks/results/ensembles.json.
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from benchmarks.timing import now
from common.files import read_json, write_json
from common.models import MnistConvNet, initialise_uniform
from common.training import ConvolutionalEnsemble, Ensemble, FullyConnectedEnsemble

RESULTS = Path(__file__).parent / "results" / "ensembles.json"
SIZES = (784, 100, 100, 10)
MEMBERS = 32
CONVOLUTIONAL_MEMBERS = 5
DENSE, CONVOLUTIONAL = "784-100-100-10", "MnistConvNet"
TARGETS = {
    "cpu": {
        DENSE: {1: 4.0, 4: 4.0, 10: 4.0, 25: 4.0, 100: 2.5},
        CONVOLUTIONAL: {12: 1.5, 16: 1.4, 32: 1.2, 64: 1.2},
    },
    "cuda": {DENSE: {4: 30.0, 25: 30.0, 100: 30.0}},
}


@dataclass(frozen=True)
class Row:
    """One network and batch size; milliseconds a step of all members, medians."""

    network: str
    device: str
    threads: int
    batch_size: int
    loop: float
    ensemble: float
    ratio: float
    target: float
    met: bool


def dense_steps(batch_size: int, device: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """One step of all members, by the loop and by the ensemble."""
    ensemble = FullyConnectedEnsemble.drawn(SIZES, [torch.Generator().manual_seed(s) for s in range(MEMBERS)])
    ensemble = FullyConnectedEnsemble(SIZES, ensemble.weights.to(device))
    modules = [ensemble.module(member) for member in range(MEMBERS)]
    optimisers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in modules]
    source = torch.Generator().manual_seed(0)
    inputs = torch.rand(MEMBERS, batch_size, SIZES[0], generator=source).to(device)
    targets = torch.rand(MEMBERS, batch_size, SIZES[-1], generator=source).to(device)
    rates = torch.full((MEMBERS,), 0.1, device=device)
    loss = nn.MSELoss()

    def loop() -> None:
        for module, optimiser, x, y in zip(modules, optimisers, inputs, targets, strict=True):
            optimiser.zero_grad()
            loss(module(x), y).backward()
            optimiser.step()

    def together() -> None:
        ensemble.sgd_step(inputs, targets, rates)

    return loop, together


def convolutional_gradients(batch_size: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Gradients of all members, member by member and in one pass, from the same weights."""
    source = torch.Generator().manual_seed(0)
    images = torch.randn(CONVOLUTIONAL_MEMBERS, batch_size, 1, 28, 28, generator=source)
    targets = torch.randint(0, 10, (CONVOLUTIONAL_MEMBERS, batch_size), generator=source)
    batches = list(zip(images, targets, strict=True))
    ensembles = []
    for kind in (Ensemble, ConvolutionalEnsemble):
        members = [MnistConvNet() for _ in batches]
        for seed, member in enumerate(members):
            initialise_uniform(member, torch.Generator().manual_seed(seed))
        ensembles.append(kind(members))
    one_by_one, together = ensembles
    return lambda: one_by_one.losses_and_gradients(batches), lambda: together.losses_and_gradients(batches)


def seconds(function: Callable[[], object], device: str, calls: int) -> float:
    """Of one call, the mean of `calls`."""
    start = now(device)
    for _ in range(calls):
        function()
    return (now(device) - start) / calls


def measured(network: str, batch_size: int, device: str, repetitions: int) -> Row:
    """Both ways in turn."""
    loop, together = dense_steps(batch_size, device) if network == DENSE else convolutional_gradients(batch_size)
    pairs = []
    for number in range(repetitions + 2):
        pair = seconds(loop, device, 3), seconds(together, device, 3)
        if number >= 2:
            pairs.append(pair)
    ratio = statistics.median(a / b for a, b in pairs)
    target = TARGETS[device][network][batch_size]
    first, second = (1000 * statistics.median(column) for column in zip(*pairs, strict=True))
    threads = torch.get_num_threads()
    times = round(first, 2), round(second, 2), round(ratio, 2)
    return Row(network, device, threads, batch_size, *times, target, ratio >= target)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=list(TARGETS), default="cpu")
    parser.add_argument("--repetitions", type=int, default=25)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [
        measured(network, size, options.device, options.repetitions)
        for network, sizes in TARGETS[options.device].items()
        for size in sizes
    ]
    earlier = read_json(options.out) if options.out.exists() else []
    same = (options.device, options.threads)
    kept = [row for row in earlier if (row["device"], row["threads"]) != same]
    write_json(options.out, [*kept, *map(asdict, rows)])
    print("| network | batch | loop (ms) | ensemble (ms) | ratio | target | met |\n|---|--:|--:|--:|--:|--:|---|")
    for row in rows:
        met = "yes" if row.met else "no"
        times = f"{row.loop} | {row.ensemble} | {row.ratio}"
        print(f"| {row.network} | {row.batch_size} | {times} | ≥ {row.target:g} | {met} |")


if __name__ == "__main__":
    main()
