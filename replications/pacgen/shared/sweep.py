"""Training the network of the sweeps at one setting for several seeds, and the measurements along the way."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from common.experiments import RunContext
from common.models import MnistConvNet, initialise_uniform
from common.training import ConvolutionalEnsemble, Evaluation, HeavyBall, SquaredGradientAverage
from common.training.crossings import LossWatch, near
from common.training.schedules import constant_then_linear

from .measures import curvature_measures
from .sweep_setting import Prepare, SweepParameters, Task, prepare

CHUNK = 250
CHECKS = 2
"""Times an epoch at which a run that comes near the next of its `crossing_losses` is looked at."""


def train_and_measure(runs: Sequence[SweepParameters], context: RunContext, prepare_task: Prepare = prepare) -> None:
    """Train all seeds of one setting together; record every measure at the evaluation epochs and at crossings."""
    training = _Training(runs, context, [prepare_task(run, context) for run in runs])
    training.restore(context.restore())
    for _ in range(training.epoch, runs[0].epochs):
        training.one_epoch()
        context.checkpoint(training.state())


class _Training:
    """The loop's moving parts; `state()` holds everything that changes."""

    def __init__(self, runs: Sequence[SweepParameters], context: RunContext, tasks: Sequence[Task]) -> None:
        self.runs, self.context, self.tasks = runs, context, tasks
        self.setting, self.standardise = runs[0], tasks[0].standardise
        members = []
        for task in tasks:
            member = self._network()
            initialise_uniform(member, task.init)
            members.append(member.to(context.device))
        self.ensemble = ConvolutionalEnsemble(members)
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
        watch = LossWatch(self.steps_per_epoch, CHECKS)
        batches = zip(*(torch.split(order, self.setting.batch_size) for order in orders), strict=True)
        for number, chosen in enumerate(batches, start=1):
            losses = self.ensemble.losses_and_gradients(self._batches(chosen))
            self._retire_diverged(losses)
            self.average.update(self.ensemble.gradients)
            share = (self.epoch + (number - 1) / self.steps_per_epoch) / self.setting.epochs
            rate = self.setting.learning_rate * constant_then_linear(share, self.setting.decay_from)
            self.optimiser.learning_rate = rate
            self.optimiser.step(self.ensemble.gradients)
            self.step += 1
            watch.add(losses)
            if watch.due(number) or self.step in self.due:
                self._look(watch.take())
            self.context.progress(self.epoch + number / self.steps_per_epoch, self.setting.epochs)
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
            approaching = bool(left) and near(recent[member], left[0])
            if not self.alive[member] or not (planned or closing or approaching):
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
            **curvature_measures(self.scratch.weights[0], squares, task, self.setting, ensemble=self.perturbed),
        }

    def _evaluate(self, images: torch.Tensor, targets: torch.Tensor) -> Evaluation:
        """Loss and error of the network in `scratch`."""

        def chunks(_: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            for part, expected in zip(torch.split(images, CHUNK), torch.split(targets, CHUNK), strict=True):
                yield self.standardise(part), expected

        return self.scratch.evaluate(chunks)
