"""Figure 18 and its CIFAR-10 twin for convolutional networks and for ten outputs, trained to one loss."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.hessian import Problem, alignment
from common.models import FullyConnected
from common.training import Batches, Descent, FullyConnectedEnsemble, ModuleEnsemble, one_hot

from .shared.layered_hessians import LayeredHessians
from .shared.scalar_networks import two_class_targets
from .shared.squared_error import squared_error

OURS = "our choice, D27"
LECTURE = "Wu 2025, Fig. 18 and its CIFAR-10 twin"


class Parameters(ExperimentParameters):
    """Settings: images, a network and its size, SGD to a given loss, and when it is measured."""

    dataset: DatasetName = Field("cifar10", description="images", source=LECTURE)
    kind: Literal["fully_connected", "convolutional"] = Field("convolutional", description="network", source=OURS)
    outputs: Literal[1, 10] = Field(1, description="one for two classes, ten for ten", source=OURS)
    examples: int = Field(200, ge=2, unit="images", description="n", source=OURS)
    width: int = Field(16, ge=1, description="channels of the first layer, or neurons of each hidden one", source=OURS)
    learning_rate: float = Field(0.01, gt=0, unit="1", description="η", source=OURS)
    batch_size: int = Field(20, ge=1, unit="images", description="B", source=OURS)
    stopping_loss: float = Field(1e-3, gt=0, unit="1", description="at which every network stops", source=OURS)
    measured: tuple[int, ...] = Field(
        (0, 30, 100, 300, 1000, 3000, 10_000, 30_000),
        min_length=2,
        unit="steps",
        description="when it is measured; one that has stopped before, where it stopped",
        source=OURS,
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one network together; measure on the way."""
    setting = runs[0]
    train = context.data(setting.dataset).train
    drawn = [_examples(setting, train, context.generator(run, "split")) for run in runs]
    inputs, targets = (torch.stack(part) for part in zip(*drawn, strict=True))
    networks = _networks(setting, train, inputs.shape[2], [context.generator(run, "init") for run in runs])
    batches = Batches(setting.examples, setting.batch_size, [context.generator(run, "batches") for run in runs])
    descent = Descent(
        networks,
        inputs,
        targets,
        learning_rates=setting.learning_rate,
        batches=batches,
        stopping_loss=setting.stopping_loss,
        check_every=20,
    )
    state = context.restore()
    if state is not None:
        descent.restore(state["descent"])
    done = -1 if state is None else int(state["done"])
    for step in [step for step in setting.measured if step > done]:
        since, done = max(done, 0), step
        before = descent.steps.clone()
        descent.advance(step - since)
        for member, run in enumerate(runs):
            if step and descent.steps[member] == before[member]:
                continue  # it had stopped
            data = inputs[member], targets[member]
            _measure(run, context, networks.module(member), data, int(descent.steps[member]))
        context.progress(step, setting.measured[-1])
        context.checkpoint({"descent": descent.state(), "done": done})


def _examples(run: Parameters, split: Split, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels 0…1 [n, features] and targets, ±1 [n, 1] or one-hot [n, 10]."""
    if run.outputs == 1:
        targets = two_class_targets(split.targets.long(), run.dataset)[:, None]
        usable = torch.nonzero(targets[:, 0]).flatten()
    else:
        targets = one_hot(split.targets.long(), run.outputs)
        usable = torch.arange(len(targets))
    chosen = usable[torch.randperm(len(usable), generator=source)[: run.examples]]
    return split.inputs[chosen].flatten(1).float() / 255, targets[chosen].float()


def _networks(
    run: Parameters, split: Split, features: int, generators: Sequence[torch.Generator]
) -> FullyConnectedEnsemble | ModuleEnsemble:
    """One network a generator, with PyTorch's default initial weights."""
    if run.kind == "fully_connected":
        return FullyConnectedEnsemble.drawn((features, run.width, run.width, run.outputs), generators)
    return ModuleEnsemble.drawn(convolutional(run.width, run.outputs, tuple(split.inputs.shape[1:])), generators)


def convolutional(width: int, outputs: int, shape: tuple[int, ...]) -> Callable[[], nn.Module]:
    """Three 3 × 3 convolutions of width, twice and four times as many channels, each halved by pooling; a linear layer.

    Args:
        shape: channels, height and width of the images, which come flattened.
    """
    channels, height, breadth = shape

    def make() -> nn.Module:
        layers: list[nn.Module] = [nn.Unflatten(1, shape)]
        sizes = (channels, width, 2 * width, 4 * width)
        for before, after in pairwise(sizes):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(sizes[-1] * (height // 8) * (breadth // 8), outputs))

    return make


def _measure(
    run: Parameters,
    context: RunContext,
    network: nn.Module,
    data: tuple[torch.Tensor, torch.Tensor],
    step: int,
) -> None:
    if not all(bool(weight.isfinite().all()) for weight in network.parameters()):
        context.diverged(run, f"weights not finite at step {step}")
        return
    inputs, targets = (part.double() for part in data)
    if isinstance(network, FullyConnected):
        found = LayeredHessians(network.double(), inputs, targets).ntk().alignment()
    else:
        found = alignment(Problem(network.double(), squared_error, (inputs, targets)))
    context.record(
        run,
        step=step,
        parameters=sum(weight.numel() for weight in network.parameters()),
        loss=found.loss,
        alpha=found.alpha,
        beta=found.beta,
        mu=found.mu,
        frobenius=found.curvature_norm,
    )
