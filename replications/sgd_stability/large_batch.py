"""Tables 1, 2 and 4 of Keskar et al.: accuracy and ε-sharpness after ADAM with small and large batches."""

from collections.abc import Sequence
from typing import Any

import torch

from common.datasets import Split
from common.experiments import Field, RunContext
from common.hessian import Problem, epsilon_sharpness, sharpness, trace
from common.training import Standardise
from common.training.crossings import LossWatch, near
from common.training.schedules import constant_then_linear

from .shared.batch_size_comparison import KESKAR, ClassifierParameters, first, training_split
from .shared.classifiers import Members, flat, hardest_first, loss_and_error, untrained

CHECKS = 10
"""Looks at the training loss an epoch, for the first passing of `crossing_loss`."""


class Parameters(ClassifierParameters):
    """Settings of a training run and of the measurements at its end."""

    batch_size: int = Field(256, ge=1, unit="images", description="images a step", source=f"{KESKAR}: 256 or 10 %")
    learning_rate: float = Field(1e-3, gt=0, description="of ADAM", source="its default, which the authors take")
    epochs: int = Field(40, ge=1, unit="epochs", description="length of training", source="deviation D41")
    decay_from: float = Field(
        1, ge=0, le=1, description="share of training after which the rate falls linearly to 0", source="deviation D41"
    )
    own_streams: bool = Field(False, description="own initial weights and batches for this arm", source="control")
    crossing_loss: float = Field(
        0.05,
        ge=0,
        unit="nats",
        description="training loss at whose first passing a run is measured too (0: never)",
        source="deviation D42",
    )
    measured_images: int = Field(
        2000, ge=50, unit="images", description="training images behind ε-sharpness and λ₁", source="deviation D43"
    )
    dimensions: int = Field(100, ge=1, description="of the random subspace", source=f"{KESKAR}, Table 4")
    epsilons: tuple[float, ...] = Field(
        (1e-3, 5e-4), description="half widths ε of the box", source=f"{KESKAR}, Table 4"
    )
    ascent_steps: int = Field(10, ge=1, description="iterations of the maximisation", source=KESKAR)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together with ADAM, measure them at the crossing and at the end, keep the weights."""
    training = _Training(runs, context)
    training.restore(context.restore())
    for _ in range(training.epoch, runs[0].epochs):
        training.one_epoch()
        context.checkpoint(training.state())
    training.finish()


class _Training:
    """The loop's moving parts; `state()` holds everything that changes."""

    def __init__(self, runs: Sequence[Parameters], context: RunContext) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        data = context.data(self.setting.dataset)
        self.standardise = Standardise.by_shares(*data.train.channel_statistics())
        self.test = data.test.to(context.device)
        self.splits = [training_split(run, data).to(context.device) for run in runs]
        arm = "_own" if self.setting.own_streams else ""
        network = untrained(self.setting.architecture, self.splits[0].inputs[0].numel(), self.setting.hidden)
        init = [context.generator(run, f"init{arm}") for run in runs]
        self.members = Members(network, init, context.device)
        self.initial = [flat(self.members.module(member)) for member in range(len(runs))]
        self.orders = [context.generator(run, f"batches{arm}") for run in runs]
        self.members.weights.grad = self.members.gradients
        self.adam = torch.optim.Adam([self.members.weights], lr=self.setting.learning_rate, fused=True)
        self.epoch = 0
        self.crossed = [False] * len(runs)
        self.at_crossing = torch.zeros_like(torch.stack(self.initial))

    def state(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "weights": self.members.weights,
            "adam": self.adam.state_dict(),
            "orders": [order.get_state() for order in self.orders],
            "crossed": [int(value) for value in self.crossed],
            "at_crossing": self.at_crossing,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        self.epoch, self.crossed = state["epoch"], [bool(value) for value in state["crossed"]]
        self.members.weights.copy_(state["weights"])
        self.at_crossing.copy_(state["at_crossing"])
        self.adam.load_state_dict(state["adam"])
        for order, saved in zip(self.orders, state["orders"], strict=True):
            order.set_state(saved)

    def one_epoch(self) -> None:
        """Every image once, in an order that the arms of a seed share, cut into batches."""
        count, device = len(self.splits[0]), self.context.device
        orders = torch.stack([torch.randperm(count, generator=order) for order in self.orders]).to(device)
        batches = orders.split(self.setting.batch_size, 1)
        watch = LossWatch(len(batches), CHECKS)
        for number, chosen in enumerate(batches, start=1):
            share = (self.epoch + (number - 1) / len(batches)) / self.setting.epochs
            rate = self.setting.learning_rate * constant_then_linear(share, self.setting.decay_from)
            self.adam.param_groups[0]["lr"] = rate
            watch.add(self._step(chosen))
            if watch.due(number):
                self._look_for_crossing(watch.take(), self.epoch + number / len(batches))
            self.context.progress(self.epoch + number / len(batches), self.setting.epochs)
        self.epoch += 1

    def _step(self, chosen: torch.Tensor) -> torch.Tensor:
        pairs = list(zip(self.splits, chosen, strict=True))
        images = torch.stack([self.standardise(split.inputs[index]) for split, index in pairs])
        targets = torch.stack([split.targets[index] for split, index in pairs])
        losses = self.members.losses_and_gradients(images, targets)
        self.adam.step()
        return losses

    def _look_for_crossing(self, recent: Sequence[float], epoch: float) -> None:
        for member in range(len(self.runs)):
            if self.crossed[member] or not near(recent[member], self.setting.crossing_loss):
                continue
            network = self.members.module(member)
            loss, _ = loss_and_error(network, self._measured(member), self.standardise)
            if loss <= self.setting.crossing_loss:
                self.crossed[member] = True
                self.at_crossing[member] = flat(network)
                self._record(member, "crossing", network, epoch)

    def finish(self) -> None:
        """Measure everything at the end and keep the weights, flat in the order of the network's parameters.

        `crossing` are those at the first passing of `crossing_loss`, if there was one.
        """
        for member, run in enumerate(self.runs):
            network = self.members.module(member)
            if not bool(self.members.weights[member].isfinite().all()):
                self.context.diverged(run, f"weights not finite after {self.setting.epochs} epochs")
                continue
            kept = {"initial": self.initial[member], "weights": flat(network)}
            if self.crossed[member]:
                kept["crossing"] = self.at_crossing[member]
            self.context.save(run, "weights", kept)
            self._record(member, "end", network, float(self.setting.epochs))

    def _measured(self, member: int) -> Split:
        return first(self.splits[member], self.setting.measured_images)

    def _record(self, member: int, kind: str, network: torch.nn.Module, epoch: float) -> None:
        training = loss_and_error(network, self.splits[member], self.standardise)
        test = loss_and_error(network, self.test, self.standardise)
        self.context.record(
            self.runs[member],
            kind=kind,
            epoch=epoch,
            parameters=sum(parameter.numel() for parameter in network.parameters()),
            training_loss=training.loss,
            training_error=training.error,
            test_loss=test.loss,
            test_error=test.error,
            **self._curvature(member, network, self.setting.epsilons[: None if kind == "end" else 1]),
        )

    def _curvature(self, member: int, network: torch.nn.Module, epsilons: Sequence[float]) -> dict[str, Any]:
        """ε-sharpness of Keskar et al. for each ε, λ₁ and Tr H on some of the training images, in float64."""
        measured = hardest_first(network, self._measured(member), self.standardise)
        images = self.standardise(measured.inputs).double()
        problem = Problem(network.double(), torch.nn.CrossEntropyLoss(), (images, measured.targets))
        seed = self.context.stream_seed(self.runs[member], "probes") % 2**31
        largest = sharpness(problem, relative_error=0.1, seed=seed).estimate
        values: dict[str, Any] = {
            "measured_loss": problem.loss(),
            "lambda_1": float(largest.value),
            "lambda_1_error": float(largest.error),
            "trace": float(trace(problem, relative_error=0.05, seed=seed).value),
        }
        for epsilon in epsilons:
            found = epsilon_sharpness(
                problem,
                epsilon,
                dimensions=self.setting.dimensions,
                iterations=self.setting.ascent_steps,
                seed=seed,
            )
            values |= {f"sharpness_{epsilon:g}": found.value, f"ascent_converged_{epsilon:g}": found.ascent.converged}
        return values
