"""Figure 4 in small: SGD against full-batch gradient descent with more steps, clipping and a gradient penalty."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import nn

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models import SmallVGG
from common.training import Batches, FullyConnectedEnsemble, ModuleEnsemble

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
    learning_rate: float = Field(
        0.1, gt=0, description="at the start; falls to 0 along a cosine", source="our choice, deviation D8"
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of both methods", source="our choice, deviation D8")
    clip: float = Field(0.0, ge=0, description="largest norm of the gradient; 0 for no clipping", source=GEIPING)
    penalty: float = Field(
        0.0, ge=0, description="α of the loss L + (α/2) mean ‖∇L_B‖² over mini-batches", source=GEIPING
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


class _Training:
    """Networks of all seeds, each on its own subset of the images."""

    def __init__(self, runs: Sequence[Parameters], context: RunContext) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        dataset = context.data(self.setting.dataset)
        subsets = [
            dataset.train.subset(run.training_images, seed=context.stream_seed(run, "split")).to(context.device)
            for run in runs
        ]
        self.inputs = torch.stack([subset.as_float().flatten(1) for subset in subsets])
        self.targets = torch.stack([subset.targets for subset in subsets])
        test = dataset.test.to(context.device)
        self.test = test.as_float().flatten(1), test.targets
        generators = [context.generator(run, "init") for run in runs]
        self.networks = _networks(self.setting, generators, self.inputs.shape[2], dataset.classes, context.device)
        self.velocity = torch.zeros_like(self.networks.weights)
        self.batches = Batches(
            self.setting.training_images, self.setting.batch_size, [context.generator(run, "batches") for run in runs]
        )
        self.step = 0

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
        if self.setting.clip:
            lengths = gradient.norm(dim=1, keepdim=True)
            gradient = gradient * (self.setting.clip / lengths.clamp(min=self.setting.clip))
        self.velocity.mul_(self.setting.momentum).add_(gradient)
        rate = self.setting.learning_rate * (1 + math.cos(math.pi * self.step / self.total)) / 2
        self.networks.weights.sub_(self.velocity, alpha=rate)
        self.step += 1

    def _gradient(self) -> torch.Tensor:
        """Of the loss of this step [members, parameters], the penalty included."""
        members = range(len(self.runs))
        if not self.setting.full_batch:
            return self._gradient_of(self.batches.next(members))
        if not self.setting.penalty:
            return self._gradient_of(None)
        total = torch.zeros_like(self.velocity)
        for _ in range(self.per_epoch):
            total += self._penalised(self.batches.next(members))
        return total / self.per_epoch

    def _gradient_of(self, chosen: torch.Tensor | None) -> torch.Tensor:
        self.networks.losses_and_gradients(*self._examples(chosen))
        return self.networks.gradients

    def _examples(self, chosen: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Each seed's examples with the indices `chosen` [seeds, B], or all of its own."""
        if chosen is None:
            return self.inputs, self.targets
        own, chosen = torch.arange(len(self.runs))[:, None], chosen.to(self.inputs.device)
        return self.inputs[own, chosen], self.targets[own, chosen]

    def _penalised(self, chosen: torch.Tensor) -> torch.Tensor:
        """∇(L_B + (α/2) ‖∇L_B‖²) = g + α H g, with H g from a difference of gradients."""
        networks, batch = self.networks, self._examples(chosen)
        before = networks.weights.clone()
        networks.losses_and_gradients(*batch)
        gradient = networks.gradients.clone()
        lengths = gradient.norm(dim=1, keepdim=True).clamp(min=1e-12)
        networks.weights.add_((gradient / lengths).mul_(self.setting.difference))
        networks.losses_and_gradients(*batch)
        networks.weights.copy_(before)
        change = networks.gradients.sub_(gradient).mul_(lengths / self.setting.difference)
        return gradient.add_(change.mul_(self.setting.penalty))

    def evaluate(self) -> None:
        """Training loss, and accuracy on the test set."""
        losses = self.networks.losses(self.inputs, self.targets)
        wrong = torch.zeros(len(self.runs))
        for inputs, targets in zip(self.test[0].split(1000), self.test[1].split(1000), strict=True):
            wrong += (self.networks.outputs(inputs).argmax(2) != targets).sum(1).cpu()
        for member, run in enumerate(self.runs):
            loss = float(losses[member])
            if not math.isfinite(loss):
                self.context.diverged(run, f"training loss not finite at step {self.step}")
                continue
            self.context.record(
                run,
                step=self.step,
                training_loss=loss,
                test_accuracy=1 - float(wrong[member]) / len(self.test[1]),
                last=self.step == self.total,
            )

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
