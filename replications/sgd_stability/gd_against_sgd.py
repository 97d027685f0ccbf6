"""Figure 4 in small: SGD against full-batch gradient descent with more steps, clipping and a gradient penalty.

A run trains a row of the table with several learning rates, clipping norms or penalties; its analysis takes the one
with the best validation accuracy.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, Literal

import torch
from torch import nn

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models import SmallVGG
from common.training import Batches, FullyConnectedEnsemble, ModuleEnsemble

from .shared.gradient_penalty import penalised_gradient

GEIPING = "Geiping et al. 2022, as quoted in Fig. 4"


class Parameters(ExperimentParameters):
    """Settings of a run; an arm is a row of the table."""

    dataset: DatasetName = Field("cifar10", description="images", source=GEIPING)
    training_images: int = Field(
        5000, ge=2, unit="images", description="a random subset", source="our choice, deviation D8"
    )
    network: Literal["fully_connected", "small_vgg"] = Field(
        "small_vgg",
        description="fully connected with two hidden layers, or the small VGG",
        source="our choice, deviation D8",
    )
    width: int = Field(
        100, ge=1, unit="units", description="of each hidden layer (fully connected)", source="our choice"
    )
    batch_size: int = Field(
        32, ge=1, unit="images", description="of SGD, and of the gradient penalty", source=f"{GEIPING}: bs32"
    )
    epochs: int = Field(30, ge=1, unit="epochs", description="of SGD", source="our choice, deviation D8")
    full_batch: bool = Field(False, description="whether a step takes all images", source=GEIPING)
    step_budget: Literal["epochs", "ten_epochs", "sgd_steps"] = Field(
        "epochs",
        description="steps of full-batch descent: one or ten for each epoch of SGD, or as many as SGD has",
        source=GEIPING,
    )
    learning_rates: tuple[float, ...] = Field(
        (0.01, 0.03, 0.1, 0.3),
        min_length=1,
        description="candidates, at the start; each falls to 0 along a cosine",
        source="our choice, deviation D8",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of both methods", source="our choice, deviation D8")
    clips: tuple[float, ...] = Field(
        (0.0,),
        min_length=1,
        description="candidates for the largest norm of the gradient; 0: no clipping",
        source=GEIPING,
    )
    penalties: tuple[float, ...] = Field(
        (0.0,),
        min_length=1,
        description="candidates for α of the loss L + (α/2) mean ‖∇L_B‖² over mini-batches",
        source=GEIPING,
    )
    validation_images: int = Field(
        5000, ge=1, unit="images", description="other images, by which a candidate is chosen", source="our choice, D8"
    )
    stopping_loss: float = Field(
        0.01,
        gt=0,
        unit="nats",
        description="training loss at which training has come to its end",
        source="our choice, D8",
    )
    difference: float = Field(
        0.01, gt=0, description="length of the step behind the finite difference for H g", source="our choice"
    )
    record_times: int = Field(20, ge=1, description="evaluations in a run", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one row of the table; record losses and accuracies along the way."""
    training = _Training(runs, context)
    training.restore(context.restore())
    total = training.total
    marks = {round(total * (k + 1) / runs[0].record_times) for k in range(runs[0].record_times)}
    while training.step < total:
        training.advance()
        if training.step in marks:
            training.evaluate()
        context.progress(training.step, total)
        context.checkpoint(training.state())


def candidates(setting: Parameters) -> list[tuple[float, float, float]]:
    """Learning rate, clipping norm and penalty of every candidate of a run."""
    return list(product(setting.learning_rates, setting.clips, setting.penalties))


class _Training:
    """Networks of all seeds, each on its own subset of the images; the candidates of a seed are members in a row."""

    def __init__(self, runs: Sequence[Parameters], context: RunContext) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        dataset = context.data(self.setting.dataset)
        self.candidates = candidates(self.setting)
        splits = [self._split(dataset.train, run) for run in runs]
        self.inputs = torch.stack([train.as_float().flatten(1) for train, _ in splits])
        self.targets = torch.stack([train.targets for train, _ in splits])
        self.validation = [(held.as_float().flatten(1), held.targets) for _, held in splits]
        test = dataset.test.to(context.device)
        self.test = test.as_float().flatten(1), test.targets
        self.owner = [number for number in range(len(runs)) for _ in self.candidates]
        generators = [context.generator(runs[number], "init") for number in self.owner]
        self.networks = _networks(self.setting, generators, self.inputs.shape[2], dataset.classes, context.device)
        self.rates, self.clips, self.penalties = (
            torch.tensor(values * len(runs), device=context.device)[:, None]
            for values in zip(*self.candidates, strict=True)
        )
        self.velocity = torch.zeros_like(self.networks.weights)
        self.batches = Batches(
            self.setting.training_images, self.setting.batch_size, [context.generator(run, "batches") for run in runs]
        )
        self.full = self.inputs[self.owner], self.targets[self.owner]
        self.step = 0

    def _split(self, images: Split, run: Parameters) -> tuple[Split, Split]:
        """The images to train on, and others to choose a candidate by."""
        both = images.subset(run.training_images + run.validation_images, self.context.stream_seed(run, "split"))
        both = both.to(self.context.device)
        order = torch.arange(len(both), device=both.targets.device)
        return (
            both.take(order[: run.training_images], f"{both.name}/train"),
            both.take(order[run.training_images :], f"{both.name}/validation"),
        )

    @property
    def per_epoch(self) -> int:
        """Mini-batches an epoch."""
        return self.setting.training_images // self.setting.batch_size

    @property
    def total(self) -> int:
        """Steps of this arm."""
        epochs = self.setting.epochs
        if not self.setting.full_batch:
            return epochs * self.per_epoch
        return {"epochs": epochs, "ten_epochs": 10 * epochs, "sgd_steps": epochs * self.per_epoch}[
            self.setting.step_budget
        ]

    def advance(self) -> None:
        """One step with momentum along the clipped gradient."""
        gradient = self._gradient()
        if any(self.setting.clips):
            lengths = gradient.norm(dim=1, keepdim=True)
            gradient = gradient * torch.where(self.clips > 0, self.clips / lengths.maximum(self.clips), 1.0)
        self.velocity.mul_(self.setting.momentum).add_(gradient)
        schedule = (1 + math.cos(math.pi * self.step / self.total)) / 2
        self.networks.weights.addcmul_(self.velocity, self.rates, value=-schedule)
        self.step += 1

    def _gradient(self) -> torch.Tensor:
        """Of the loss of this step [members, parameters], the penalty included."""
        if not self.setting.full_batch:
            self.networks.losses_and_gradients(*self._next_batch())
            return self.networks.gradients
        if not any(self.setting.penalties):
            self.networks.losses_and_gradients(*self.full)
            return self.networks.gradients
        drawn = [self.batches.next(range(len(self.runs))).to(self.inputs.device) for _ in range(self.per_epoch)]
        chosen = torch.stack(drawn, 1)
        for member, run in enumerate(self.owner):
            images, targets = self.inputs[run, chosen[run]], self.targets[run, chosen[run]]
            self.networks.gradients[member] = self._penalised(member, images, targets)
        return self.networks.gradients

    def _next_batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The next mini-batch of each member; the candidates of a seed have the same."""
        chosen = self.batches.next(range(len(self.runs))).to(self.inputs.device)
        own = torch.arange(len(self.runs), device=chosen.device)[:, None]
        return self.inputs[own, chosen][self.owner], self.targets[own, chosen][self.owner]

    def _penalised(self, member: int, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean over batches of ∇(L_B + (α/2) ‖∇L_B‖²) = g + α H g, with H g from a difference of gradients.

        Args:
            inputs: [batches, images, features].
            targets: [batches, images].
        """
        penalty, difference = float(self.penalties[member]), self.setting.difference
        weights = self.networks.weights[member : member + 1]
        if isinstance(self.networks, FullyConnectedEnsemble):
            network = FullyConnectedEnsemble(self.networks.sizes, weights, loss=self.networks.loss)
            return penalised_gradient(network, inputs, targets, penalty=penalty, difference=difference)
        here, beside = (
            ModuleEnsemble(self.networks.make, rows, loss=self.networks.loss)
            for rows in (weights, torch.empty_like(weights))
        )
        total = torch.zeros_like(weights[0])
        for images, classes in zip(inputs, targets, strict=True):
            here.losses_and_gradients(images, classes)
            length = float(here.gradients.norm()) or 1.0
            torch.add(here.weights, here.gradients, alpha=difference / length, out=beside.weights)
            beside.losses_and_gradients(images, classes)
            share = penalty * length / difference
            total.add_(here.gradients[0], alpha=1 - share).add_(beside.gradients[0], alpha=share)
        return total / len(inputs)

    def evaluate(self) -> None:
        """Training loss of every candidate, and its accuracy on the validation and on the test set."""
        losses = self.networks.losses(*self.full)
        tested = self._accuracies(*self.test)
        count = len(self.candidates)
        for number, run in enumerate(self.runs):
            own = slice(number * count, (number + 1) * count)
            validated = self._accuracies(*self.validation[number], own)
            if not losses[own].isfinite().any():
                self.context.diverged(run, f"no candidate has a finite training loss at step {self.step}")
                continue
            for k, (rate, clip, penalty) in enumerate(self.candidates):
                loss = float(losses[own][k])
                self.context.record(
                    run,
                    step=self.step,
                    last=self.step == self.total,
                    candidate=k,
                    learning_rate=rate,
                    clip=clip,
                    penalty=penalty,
                    finite=math.isfinite(loss),
                    training_loss=loss if math.isfinite(loss) else None,
                    validation_accuracy=float(validated[k]),
                    test_accuracy=float(tested[own][k]),
                )

    def _accuracies(self, inputs: torch.Tensor, targets: torch.Tensor, own: slice = slice(None)) -> torch.Tensor:
        """Share of right answers of the members `own`."""
        networks = self.networks.members(list(range(len(self.owner)))[own])
        right = torch.zeros(len(networks))
        for part, answers in zip(inputs.split(1000), targets.split(1000), strict=True):
            right += (networks.outputs(part).argmax(2) == answers).sum(1).cpu()
        return right / len(targets)

    def state(self) -> dict[str, Any]:
        return {
            "weights": self.networks.weights,
            "velocity": self.velocity,
            "batches": self.batches.state(),
            "step": self.step,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.networks.weights.copy_(state["weights"])
            self.velocity.copy_(state["velocity"])
            self.batches.restore(state["batches"])
            self.step = int(state["step"])


def _networks(
    setting: Parameters, generators: Sequence[torch.Generator], features: int, classes: int, device: torch.device
) -> FullyConnectedEnsemble | ModuleEnsemble:
    if setting.network == "small_vgg":

        def make() -> nn.Module:
            return nn.Sequential(nn.Unflatten(1, (3, 32, 32)), SmallVGG(classes))

        return ModuleEnsemble.drawn(make, generators, loss="cross_entropy", device=device)
    sizes = (features, setting.width, setting.width, classes)
    return FullyConnectedEnsemble.drawn(sizes, generators, loss="cross_entropy", device=device)
