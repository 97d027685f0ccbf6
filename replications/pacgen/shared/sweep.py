"""Training the network of the sweeps at one setting for several seeds, and the measurements along the way.

What the sweeps over batch sizes (Figs. 3 and 4) and learning rates (Figs. 5 and 6) and the controls share.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models import MnistConvNet, initialise_uniform
from common.training import ConvolutionalEnsemble, Ensemble, Evaluation, HeavyBall, SquaredGradientAverage

from .measures import Standardise, curvature_measures

PAPER = "Wang et al. 2018"
EXAMPLE = "PyTorch example of 2018"
PIXEL_MEAN, PIXEL_DEVIATION = 0.1307, 0.3081  # of MNIST's training images, as in the PyTorch example
CHUNK = 250
CHECKS = 2
"""Times an epoch at which a run that comes near the next of its `crossing_losses` is looked at."""
NEAR = 3.0
"""A run is near a loss once the mean of its mini-batch losses since the last check is below that many times it."""


class SweepParameters(ExperimentParameters):
    """Settings of one training run and of its measurements."""

    dataset: DatasetName = Field("mnist", description="images", source=f"{PAPER}, Figs. 3 and 5")
    training_images: int = Field(60_000, ge=10, unit="images", description="size of the training set", source=PAPER)
    batch_size: int = Field(256, ge=1, unit="images", description="images a step", source=f"{PAPER}, Fig. 5")
    learning_rate: float = Field(0.1, gt=0, description="step length of SGD", source=f"{PAPER}, Fig. 3")
    momentum: float = Field(0.0, ge=0, lt=1, description="of SGD", source="not stated, deviation D3")
    epochs: int = Field(30, ge=1, unit="epochs", description="length of training", source="not stated, deviation D2")
    evaluation_epochs: tuple[float, ...] = Field(
        (1, 2, 4, 8, 16, 30), unit="epochs", description="when everything is measured", source="our choice"
    )
    crossing_losses: tuple[float, ...] = Field(
        (0.1, 0.05),
        unit="nats",
        description="training losses at whose first passing everything is measured",
        source="our choice",
    )
    gamma: float = Field(0.1, ge=0, description="γ of κ = γ|w| + ε", source=f"{PAPER}, Figs. 3 and 5")
    epsilon: float = Field(0.1, gt=0, description="ε of κ = γ|w| + ε", source=f"{PAPER}, Figs. 3 and 5")
    beta: float = Field(
        0.999, gt=0, lt=1, description="decay of the average of squared gradients", source=f"{PAPER}, section 7"
    )
    curvature_images: int = Field(
        2_000, ge=10, unit="images", description="training images behind the Hessian's diagonal", source="our choice"
    )
    probes: int = Field(2, ge=2, description="random signs an image for the Hessian's diagonal", source="our choice")
    rho_images: int = Field(
        256, ge=10, unit="images", description="training images behind ρ of the Hessian's diagonal", source="our choice"
    )
    rho_batches: int = Field(
        8, ge=1, unit="mini-batches", description="mini-batches behind ρ of squared gradients", source="deviation D6"
    )
    fixed_batch_size: int = Field(
        128,
        ge=1,
        unit="images",
        description="mini-batch of the reading that is equal in all settings",
        source="deviation D6",
    )
    rho_draws: int = Field(3, ge=2, description="perturbations u drawn for ρ", source="our choice, deviation D6")


@dataclass(frozen=True)
class Task:
    """What one seed trains on and is tested on, and its streams of randomness.

    Every measurement starts `probes` anew, so that all settings and times of a seed see the same perturbations.

    Attributes:
        images: uint8 [n, channels, side, side], on the device.
        targets: int64 [n].
        test: the test images, on the device.
        init, batches, probes: CPU generators.
    """

    images: torch.Tensor
    targets: torch.Tensor
    test: Split
    init: torch.Generator
    batches: torch.Generator
    probes: torch.Generator


Prepare = Callable[[Any, RunContext], Task]


def prepare(run: SweepParameters, context: RunContext) -> Task:
    """A random subset of the training images (stream `split`) and the streams that all settings of a seed share."""
    data = context.data(run.dataset)
    subset = data.train.subset(run.training_images, seed=context.stream_seed(run, "split")).to(context.device)
    streams = (context.generator(run, name) for name in ("init", "batches", "probes"))
    return Task(subset.inputs, subset.targets, data.test.to(context.device), *streams)


def standardise(images: torch.Tensor) -> torch.Tensor:
    """Grey values 0…255 as float32 of mean 0 and deviation 1 over MNIST."""
    return images.float().sub_(255 * PIXEL_MEAN).div_(255 * PIXEL_DEVIATION)


def train_and_measure(
    runs: Sequence[SweepParameters],
    context: RunContext,
    prepare_task: Prepare = prepare,
    standardise_images: Standardise = standardise,
) -> None:
    """Train all seeds of one setting together; record every measure at the evaluation epochs and at crossings."""
    training = _Training(runs, context, [prepare_task(run, context) for run in runs], standardise_images)
    training.restore(context.restore())
    total = runs[0].epochs
    for epoch in range(training.epoch, total):
        training.one_epoch()
        context.progress(epoch + 1, total)
        context.checkpoint(training.state())


class _Training:
    """The loop's moving parts; `state()` holds everything that changes."""

    def __init__(
        self,
        runs: Sequence[SweepParameters],
        context: RunContext,
        tasks: Sequence[Task],
        standardise_images: Standardise = standardise,
    ) -> None:
        self.runs, self.context, self.tasks, self.standardise = runs, context, tasks, standardise_images
        self.setting = runs[0]
        members = []
        for task in tasks:
            member = self._network()
            initialise_uniform(member, task.init)
            members.append(member.to(context.device))
        self.ensemble = Ensemble(members)
        weights = self.ensemble.weights
        self.optimiser = HeavyBall(weights, learning_rate=self.setting.learning_rate, momentum=self.setting.momentum)
        self.average = SquaredGradientAverage(weights, beta=self.setting.beta)
        self.scratch, self.perturbed = (
            ConvolutionalEnsemble([self._network().to(context.device) for _ in range(count)])
            for count in (1, 1 + self.setting.rho_draws)
        )
        self.epoch = self.step = 0
        self.alive = [True] * len(runs)
        self.steps_per_epoch = -(-len(tasks[0].targets) // self.setting.batch_size)
        self.due = {
            max(1, round(epoch * self.steps_per_epoch)): epoch
            for epoch in self.setting.evaluation_epochs
            if epoch <= self.setting.epochs
        }
        self.levels = sorted(self.setting.crossing_losses, reverse=True)
        self.passed = [0] * len(runs)
        """How many of `levels` each member has passed."""

    def _network(self) -> MnistConvNet:
        channels, side = self.tasks[0].images.shape[1:3]
        return MnistConvNet(channels, side)

    def state(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "step": self.step,
            "alive": [int(value) for value in self.alive],
            "weights": self.ensemble.weights,
            "optimiser": self.optimiser.state(),
            "average": self.average.state(),
            "batches": [task.batches.get_state() for task in self.tasks],
            "passed": self.passed,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        self.epoch, self.step = state["epoch"], state["step"]
        self.alive = [bool(value) for value in state["alive"]]
        self.ensemble.weights.copy_(state["weights"])
        self.optimiser.restore(state["optimiser"])
        self.average.restore(state["average"])
        self.passed = [int(value) for value in state["passed"]]
        for task, batches in zip(self.tasks, state["batches"], strict=True):
            task.batches.set_state(batches)

    def one_epoch(self) -> None:
        """Every image once, in an order that all settings of a seed share, cut into batches."""
        orders = [torch.randperm(len(task.targets), generator=task.batches) for task in self.tasks]
        checks = {round(self.steps_per_epoch * (k + 1) / CHECKS) for k in range(CHECKS)}
        since_check: list[torch.Tensor] = []
        batches = zip(*(torch.split(order, self.setting.batch_size) for order in orders), strict=True)
        for number, chosen in enumerate(batches, start=1):
            losses = self.ensemble.losses_and_gradients(self._batches(chosen))
            self._retire_diverged(losses)
            self.average.update(self.ensemble.gradients)
            self.optimiser.step(self.ensemble.gradients)
            self.step += 1
            since_check.append(losses)
            if number in checks or self.step in self.due:
                self._look(torch.stack(since_check).double().mean(0).tolist())
                since_check = []
        self.epoch += 1

    def _batches(self, chosen: Sequence[torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Images and targets of each member for its indices, all of one number."""
        places = [index.to(task.targets.device) for task, index in zip(self.tasks, chosen, strict=True)]
        bytes_of = [task.images[index] for task, index in zip(self.tasks, places, strict=True)]
        images = self.standardise(torch.cat(bytes_of)).split(len(places[0]))
        return [(some, task.targets[index]) for some, task, index in zip(images, self.tasks, places, strict=True)]

    def _retire_diverged(self, losses: torch.Tensor) -> None:
        """Members whose loss is no number stop where they are, at weights 0; the others go on."""
        for member, finite in enumerate(losses.isfinite().tolist()):
            if not finite and self.alive[member]:
                self.alive[member] = False
                self.ensemble.weights[member] = 0
                self.optimiser.velocity[member] = 0
                self.context.diverged(self.runs[member], f"training loss not finite at step {self.step + 1}")
            if not self.alive[member]:
                self.ensemble.gradients[member] = 0

    def _look(self, recent: Sequence[float]) -> None:
        """Measure what is due: everything at evaluation epochs and at crossings, the training loss before the end.

        Args:
            recent: mean mini-batch loss of each member since the last look; cheap, it tells who comes near a crossing.
        """
        planned = self.step in self.due
        closing = self.step == (self.setting.epochs - 1) * self.steps_per_epoch
        for member, run in enumerate(self.runs):
            left = self.levels[self.passed[member] :]
            near = bool(left) and recent[member] <= NEAR * left[0]
            if not self.alive[member] or not (planned or closing or near):
                continue
            task = self.tasks[member]
            self.scratch.weights.copy_(self.ensemble.weights[member : member + 1])
            training = self._evaluate(task.images, task.targets)
            crossed = sum(float(training.loss) <= level for level in left)
            self.passed[member] += crossed
            kind = "epoch" if planned else "crossing" if crossed else "check"
            values = {"kind": kind, "epoch": self.due.get(self.step, self.step / self.steps_per_epoch)}
            if planned or crossed:
                self.context.record(run, **values, **self._everything(member, training))
            elif closing:
                self.context.record(run, **values, step=self.step, training_loss=float(training.loss))

    def _everything(self, member: int, training: Evaluation) -> dict[str, float]:
        """Losses, errors and all readings of Ψ of one member, whose weights lie in `scratch`."""
        task = self.tasks[member]
        test = self._evaluate(task.test.inputs, task.test.targets)
        probes = torch.Generator()
        probes.set_state(task.probes.get_state())
        task = replace(task, probes=probes)
        squares = {"": self.average.average[member], "_corrected": self.average.corrected()[member]}
        return {
            "step": self.step,
            "training_loss": float(training.loss),
            "test_loss": float(test.loss),
            "gap": float(test.loss - training.loss),
            "training_error": float(training.error),
            "test_error": float(test.error),
            **curvature_measures(
                self.scratch.weights[0], squares, task, self.setting, self.standardise, self.perturbed
            ),
        }

    def _evaluate(self, images: torch.Tensor, targets: torch.Tensor) -> Evaluation:
        """Loss and error of the network in `scratch`."""

        def chunks(_: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            for part, expected in zip(torch.split(images, CHUNK), torch.split(targets, CHUNK), strict=True):
                yield self.standardise(part), expected

        return self.scratch.evaluate(chunks)
