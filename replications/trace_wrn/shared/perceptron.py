"""The MNIST perceptron of Practical PAC-Bayes (2021): its data and the training of several seeds together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models.mnist_perceptron import MnistPerceptron
from common.training import Evaluation, FullyConnectedEnsemble, HeavyBall
from common.training.schedules import linear_decay

PAPER = "Practical PAC-Bayes 2021"
SECTION_5 = f"{PAPER}, section 5"
SOFTWARE = "software that the document cites, deviation D2"
CHUNK = 4096
"""Images that an evaluation takes at once."""


class PerceptronParameters(ExperimentParameters):
    """Settings of the training."""

    dataset: DatasetName = Field("mnist", description="images", source=SECTION_5)
    training_images: int = Field(60_000, ge=10, unit="images", description="size of the training set", source=SECTION_5)
    epochs: int = Field(50, ge=1, unit="epochs", description="length of training", source=SECTION_5)
    batch_size: int = Field(128, ge=1, unit="images", description="images a step", source=SOFTWARE)
    learning_rate: float = Field(0.01, gt=0, description="first step length, before the decay", source=SECTION_5)
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD", source=SECTION_5)
    weight_decay: float = Field(
        0.0, ge=0, description="γ of the added γ/2 ‖w‖², over all weights and biases", source=SECTION_5
    )
    log_points: int = Field(10, ge=1, description="times in training at which losses are recorded", source="our choice")


@dataclass(frozen=True)
class Task:
    """What one seed trains on, and its streams of randomness.

    Attributes:
        images: uint8 [n, 784], on the device.
        targets: int64 [n].
        init, batches: CPU generators.
    """

    images: torch.Tensor
    targets: torch.Tensor
    init: torch.Generator
    batches: torch.Generator


def prepare(run: PerceptronParameters, context: RunContext) -> Task:
    """A random subset of the training images (stream `split`) and the streams that all arms of a seed share."""
    data = context.data(run.dataset).train.subset(run.training_images, seed=context.stream_seed(run, "split"))
    data = data.to(context.device)
    streams = (context.generator(run, name) for name in ("init", "batches"))
    return Task(data.inputs.flatten(1), data.targets, *streams)


def normalised(images: torch.Tensor) -> torch.Tensor:
    """Grey values 0…255 as float32 in −1…1, the document's software's normalisation by 0.5 and 0.5."""
    return images.float().div_(127.5).sub_(1.0)


class Training:
    """Seeds of one setting trained together by SGD with momentum; `state()` holds everything that changes."""

    def __init__(self, runs: Sequence[PerceptronParameters], context: RunContext, tasks: Sequence[Task]) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        self.images = torch.stack([task.images for task in tasks])
        self.targets = torch.stack([task.targets for task in tasks])
        self.batches = [task.batches for task in tasks]
        test = context.data(self.setting.dataset).test.to(context.device)
        self.test = test.inputs.flatten(1), test.targets
        self.ensemble = FullyConnectedEnsemble.drawn(
            MnistPerceptron.SIZES, [task.init for task in tasks], loss="cross_entropy", device=context.device
        )
        self.initial = self.ensemble.weights.clone()
        self.optimiser = HeavyBall(
            self.ensemble.weights, learning_rate=self.setting.learning_rate, momentum=self.setting.momentum
        )
        self.epoch, self.measured = 0, 0

    def state(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "measured": self.measured,
            "weights": self.ensemble.weights,
            "optimiser": self.optimiser.state(),
            "batches": [generator.get_state() for generator in self.batches],
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        self.epoch, self.measured = state["epoch"], state["measured"]
        self.ensemble.weights.copy_(state["weights"])
        self.optimiser.restore(state["optimiser"])
        for generator, kept in zip(self.batches, state["batches"], strict=True):
            generator.set_state(kept)

    def train(self, share: float = 1.0) -> None:
        """All epochs that are left, losses recorded on the way; `share` is that of training in the call's progress."""
        total = self.setting.epochs
        due = {round(total * (k + 1) / self.setting.log_points) for k in range(self.setting.log_points)}
        while self.epoch < total:
            self._one_epoch()
            self.epoch += 1
            if self.epoch in due:
                self._log()
            self.context.progress(share * self.epoch, total)
            self.context.checkpoint(self.state())

    def _one_epoch(self) -> None:
        """Every image once, in an order that all arms of a seed share; the last batch may be smaller."""
        setting, count = self.setting, self.targets.shape[1]
        self.optimiser.learning_rate = setting.learning_rate * linear_decay(self.epoch / setting.epochs)
        orders = torch.stack([torch.randperm(count, generator=generator) for generator in self.batches])
        members = torch.arange(len(self.runs), device=self.images.device)[:, None]
        for chosen in orders.to(self.images.device).split(setting.batch_size, 1):
            self.ensemble.losses_and_gradients(normalised(self.images[members, chosen]), self.targets[members, chosen])
            self.ensemble.gradients.add_(self.ensemble.weights, alpha=setting.weight_decay)
            self.optimiser.step(self.ensemble.gradients)

    def _log(self) -> None:
        for run, values in zip(self.runs, self.performance(), strict=True):
            self.context.record(run, kind="epoch", epoch=self.epoch, **values)

    def performance(self) -> list[dict[str, float]]:
        """Loss (nats) and error of each member on its training set and on the whole test set, and the norm ‖w‖."""
        training = self._evaluate(self._training_chunks())
        test = self._evaluate(self._chunks(*self.test))
        norms = self.ensemble.weights.double().norm(dim=1)
        return [
            {
                "training_loss": float(training.loss[member]),
                "training_error": float(training.error[member]),
                "test_loss": float(test.loss[member]),
                "test_error": float(test.error[member]),
                "norm": float(norms[member]),
            }
            for member in range(len(self.runs))
        ]

    def _training_chunks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for images, targets in zip(self.images.split(CHUNK, 1), self.targets.split(CHUNK, 1), strict=True):
            yield normalised(images), targets

    def _chunks(self, images: torch.Tensor, targets: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for part, expected in zip(images.split(CHUNK), targets.split(CHUNK), strict=True):
            yield normalised(part), expected.expand(len(self.runs), -1)

    def _evaluate(self, chunks: Iterator[tuple[torch.Tensor, torch.Tensor]]) -> Evaluation:
        loss = torch.zeros(len(self.runs), dtype=torch.float64)
        wrong, count = torch.zeros_like(loss), 0
        for inputs, targets in chunks:
            logits = self.ensemble.outputs(inputs).double()
            own = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
            loss += own.view(targets.shape).sum(1).cpu()
            wrong += (logits.argmax(2) != targets).sum(1).cpu()
            count += targets.shape[1]
        return Evaluation(loss / count, wrong / count)

    def lost(self, member: int) -> bool:
        """Whether a member's weights are no longer finite; the framework is then told."""
        if bool(self.ensemble.weights[member].isfinite().all()):
            return False
        self.context.diverged(self.runs[member], f"weights not finite after {self.epoch} epochs")
        return True

    def keep(self, member: int) -> None:
        """Save initial and trained weights [9960]."""
        weights = {"initial": self.initial[member], "trained": self.ensemble.weights[member]}
        self.context.save(self.runs[member], "weights", weights)
