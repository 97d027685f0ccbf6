"""Training on images beside a plain loop: `python -m benchmarks.image_training [--threads N] [--device cuda]`.

The plain loop is what torchvision's tutorials show: a DataLoader over images in memory, `RandomCrop`,
`RandomHorizontalFlip`, `ToTensor` and `Normalize` for each, then forward, backward and SGD. Ours is `ResidualTraining`
on `ImageBatches`, in a process that is prepared as a job's. Both train the same network on equal images, in turn, each
in a process of its own; the ratio is that of neighbouring epochs, its median. Beside it stands which share of the
device's matrix product rate (float32 on a CPU, bfloat16 on a GPU) our steps reach, by the products and convolutions of
one step. Prints a table and writes benchmarks/results/image_training.json, where rows of other devices and thread
counts are kept.
"""

import argparse
import importlib
import multiprocessing
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.timing import now
from common.datasets.homes import make_importable
from common.experiments.process import prepare_torch
from common.files import read_json, write_json
from common.models.all_convolutional import AllConvolutional
from common.models.preactivation_resnet import PreactivationResNet
from common.models.residual_cifar import ResidualCifar
from common.models.wide_resnet import WideResNet
from common.training.images import PADDING, ImageBatches
from common.training.residual import Recipe, ResidualTraining

RESULTS = Path(__file__).parent / "results" / "image_training.json"
BATCH, CLASSES = 128, 10


@dataclass(frozen=True)
class Workload:
    """A network and the side of the images (pixels) that it is trained on."""

    network: Callable[[], nn.Module]
    side: int = 32


WORKLOADS: dict[str, Workload] = {
    "preresnet-11, width 4, 16 px": Workload(lambda: PreactivationResNet(11, width=4, classes=CLASSES), 16),
    "wrn-10-1, width 4, 16 px": Workload(lambda: WideResNet(10, 1, classes=CLASSES, base=4), 16),
    "all-cnn, width 8, 16 px": Workload(lambda: AllConvolutional(width=8, classes=CLASSES), 16),
    "resnet8, width 4": Workload(lambda: ResidualCifar(8, width=4, classes=CLASSES)),
    "wrn-10-1, width 4": Workload(lambda: WideResNet(10, 1, classes=CLASSES, base=4)),
    "all-cnn, width 8": Workload(lambda: AllConvolutional(width=8, classes=CLASSES)),
    "resnet20": Workload(lambda: ResidualCifar(20, classes=CLASSES)),
    "wrn-58-3": Workload(lambda: WideResNet(58, 3, classes=CLASSES)),
}
"""The first three are those that the replications train at laptop scale."""
SMALL = [name for name in WORKLOADS if "width" in name]
TARGETS = {"cpu": dict.fromkeys(SMALL, 2.0), "cuda": dict.fromkeys(WORKLOADS, 5.0)}
NOT_ON_A_CPU = "wrn-58-3"
MATRIX = {"cpu": (2048, torch.float32), "cuda": (8192, torch.bfloat16)}
"""Side and type of the square matrices whose product gives the peak rate."""


@dataclass(frozen=True)
class Row:
    """One network; milliseconds for 128 images, medians, the plain loop's over ours, and our share of the peak rate."""

    network: str
    device: str
    threads: int
    plain: float
    ours: float
    ratio: float
    share_of_peak: float
    target: float | None
    met: bool | None


class _Pictures(torch.utils.data.Dataset[Any]):
    """Images in memory, transformed one by one, as torchvision's data sets do it."""

    def __init__(self, images: torch.Tensor, targets: torch.Tensor, transform: Any) -> None:
        from PIL import Image

        self.pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
        self.targets, self.transform = targets.tolist(), transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, place: int) -> tuple[Any, int]:
        return self.transform(self.pictures[place]), self.targets[place]


def _plain_epoch(model: nn.Module, images: torch.Tensor, targets: torch.Tensor, device: str) -> Callable[[], None]:
    make_importable()
    from torchvision import transforms

    transform = transforms.Compose(
        [
            transforms.RandomCrop(images.shape[-1], PADDING),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.25,) * 3),
        ]
    )
    workers = 0 if device == "cpu" else 8
    loader = torch.utils.data.DataLoader(
        _Pictures(images, targets, transform),
        BATCH,
        shuffle=True,
        num_workers=workers,
        pin_memory=device != "cpu",
        persistent_workers=workers > 0,
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    loss = nn.CrossEntropyLoss()

    def epoch() -> None:
        for inputs, labels in loader:
            optimiser.zero_grad()
            torch.autograd.backward(loss(model(inputs.to(device)), labels.to(device)))
            optimiser.step()

    return epoch


def peak_rate(device: str, repetitions: int = 10) -> float:
    """Floating-point operations a second of a large square matrix product, the best of `repetitions`."""
    side, dtype = MATRIX[device]
    matrix = torch.randn(side, side, device=device).to(dtype)
    seconds = []
    for _ in range(repetitions + 1):
        start = now(device)
        matrix @ matrix
        seconds.append(now(device) - start)
    return 2 * side**3 / min(seconds[1:])


def operations(name: str) -> int:
    """Floating-point operations of the products and convolutions of one step on 128 images."""
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        side = WORKLOADS[name].side
        logits = WORKLOADS[name].network()(torch.empty(BATCH, 3, side, side))
        torch.autograd.backward(functional.cross_entropy(logits, torch.empty(BATCH, dtype=torch.int64)))
    return int(counter.get_total_flops())


def _serve(pipe: Any, kind: str, name: str, *, device: str, images: int, threads: int) -> None:
    """One of the loops in a process of its own: milliseconds for 128 images, an epoch whenever it is asked for one."""
    (prepare_torch if kind == "ours" else torch.set_num_threads)(threads)
    source = torch.Generator().manual_seed(0)
    work = WORKLOADS[name]
    pictures = torch.randint(0, 256, (images, 3, work.side, work.side), generator=source, dtype=torch.uint8)
    targets = torch.randint(0, CLASSES, (images,), generator=source)
    model = work.network().to(device)
    if kind == "plain":
        loop: Callable[[], object] = _plain_epoch(model, pictures, targets, device)
    else:
        recipe = Recipe(epochs=10**6, batch_size=BATCH, learning_rate=0.01, weight_decay=5e-4)
        batches = ImageBatches(pictures.to(device), targets.to(device))
        loop = ResidualTraining(model, batches, recipe, source).one_epoch
    while pipe.recv():
        start = now(device)
        loop()
        pipe.send(1000 * (now(device) - start) * BATCH / images)


def measured(name: str, device: str, images: int, repetitions: int, peak: float) -> Row:
    """Both loops on one network, against `peak` floating-point operations a second."""
    threads = torch.get_num_threads()
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for kind in ("plain", "ours"):
        here, there = spawn.Pipe()
        options = {"device": device, "images": images, "threads": threads}
        # no daemon: such a process may not start the workers of a DataLoader
        process = spawn.Process(target=_serve, args=(there, kind, name), kwargs=options)
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    times: list[list[float]] = [[], []]
    try:
        for number in range(repetitions + 1):
            for pipe, found in zip(pipes, times, strict=True):
                pipe.send(True)
                milliseconds = pipe.recv()
                if number:
                    found.append(milliseconds)
        for pipe in pipes:
            pipe.send(False)
    except (EOFError, OSError):
        raise SystemExit(f"{name}: one of its loops has ended early; its error stands above.") from None
    finally:
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.close()  # after which a loop that waits ends
            process.join()
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    target = TARGETS[device].get(name)
    met = None if target is None else ratio >= target
    ours = statistics.median(times[1])
    return Row(
        network=name,
        device=device,
        threads=threads,
        plain=round(statistics.median(times[0]), 1),
        ours=round(ours, 1),
        ratio=round(ratio, 2),
        share_of_peak=round(1000 * operations(name) / ours / peak, 3),
        target=target,
        met=met,
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help=f"some of {', '.join(WORKLOADS)}")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=list(TARGETS), default="cpu")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    make_importable()
    try:
        importlib.import_module("torchvision")
    except ImportError:  # computing does without
        raise SystemExit("not tried: torchvision is not installed") from None
    torch.set_num_threads(options.threads)
    everything = [name for name in WORKLOADS if options.device != "cpu" or name != NOT_ON_A_CPU]
    peak = peak_rate(options.device)
    rows = [
        measured(name, options.device, options.images, options.repetitions, peak)
        for name in options.networks or everything
    ]
    same = {(row.device, row.threads, row.network) for row in rows}
    earlier = read_json(options.out) if options.out.exists() else []
    kept = [row for row in earlier if (row["device"], row["threads"], row["network"]) not in same]
    write_json(options.out, [*kept, *map(asdict, rows)])
    print(f"torch {torch.__version__}, {options.device}, {options.threads} thread(s), {options.images} images")
    print(f"peak of matrix products: {peak / 1e12:.3g} TFLOP/s ({str(MATRIX[options.device][1]).split('.')[1]})")
    print("| network | plain loop (ms a batch) | ours (ms a batch) | plain / ours | share of peak | target | met |")
    print("|---|--:|--:|--:|--:|---|---|")
    for row in rows:
        target, met = (f"≥ {row.target}", "yes" if row.met else "no") if row.target else ("–", "–")
        share = f"{100 * row.share_of_peak:.1f} %"
        print(f"| {row.network} | {row.plain} | {row.ours} | {row.ratio:.2f} | {share} | {target} | {met} |")


if __name__ == "__main__":
    main()
