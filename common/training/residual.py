"""Training of one convolutional network on images, fast on a CPU and on a GPU, stopped and resumed at any epoch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from common.training.images import ImageBatches
from common.training.schedules import linear_decay

CHUNK = 256
"""Images an evaluation takes at once; larger chunks are slower on a CPU."""

Objective = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
"""What a step descends: the network, inputs and targets of a mini-batch to a scalar with its graph."""


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes:
        epochs: length of training.
        batch_size: images a step.
        learning_rate: before the schedule's factor.
        momentum, weight_decay: of SGD; the decay is on all parameters, γ/2 ‖w‖².
        schedule: factor of the learning rate by the share of epochs that are over, once an epoch.
        fast: on a GPU, bfloat16 where autocast allows it, and compiled passes; has no effect on a CPU.
    """

    epochs: int
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: Callable[[float], float] = linear_decay
    fast: bool = True


def cross_entropy(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The plain objective: mean cross-entropy of a mini-batch (nats)."""
    return functional.cross_entropy(model(inputs), targets)


class ResidualTraining:
    """SGD of a network on images that lie on the device.

    Attributes:
        model: trained in place, with channels last.
        epoch: epochs that are over.
        lost: a loss was not finite; the training stands still from then on.

    Args:
        model: on the device of the images.
        batches: the training images.
        recipe: see there.
        source: CPU generator of the order of images and of the augmentation; goes into the state.
        objective: what is descended, `cross_entropy` unless told otherwise. What it changes besides the model (a
            generator of its own) is the caller's to keep.
        optimiser: made from the parameters; SGD of the recipe unless told otherwise. Its learning rate follows the
            schedule, as a factor of what it was.

    Example:
        >>> images = torch.randint(0, 256, (32, 3, 8, 8), dtype=torch.uint8)
        >>> model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
        >>> batches = ImageBatches(images, torch.arange(32) % 2)
        >>> training = ResidualTraining(model, batches, Recipe(epochs=2, batch_size=16), torch.Generator())
        >>> while not training.over:
        ...     loss = training.one_epoch()
        >>> training.epoch
        2
    """

    def __init__(
        self,
        model: nn.Module,
        batches: ImageBatches,
        recipe: Recipe,
        source: torch.Generator,
        *,
        objective: Objective = cross_entropy,
        optimiser: Callable[[list[nn.Parameter]], torch.optim.Optimizer] | None = None,
    ) -> None:
        self.model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.batches, self.recipe, self.source, self.objective = batches, recipe, source, objective
        parameters = list(model.parameters())
        self.device = parameters[0].device
        self.optimiser = optimiser(parameters) if optimiser else _sgd(parameters, recipe)
        self._rates = [group["lr"] for group in self.optimiser.param_groups]
        self._fast = recipe.fast and self.device.type == "cuda"
        self._forward: nn.Module = model
        if self._fast and objective is cross_entropy:
            self._forward = torch.compile(model)  # type: ignore[assignment]
        self.epoch, self.lost = 0, False

    @property
    def over(self) -> bool:
        """All epochs are done, or the loss is no longer finite."""
        return self.lost or self.epoch >= self.recipe.epochs

    def one_epoch(self, told: Callable[[float], None] | None = None) -> float:
        """Every image once; returns the mean of the objective over the steps (NaN where it is no longer finite).

        Args:
            told: is called after every step but the last with the epochs that are done.
        """
        factor = self.recipe.schedule(self.epoch / self.recipe.epochs)
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self.model.train()
        values = []
        for inputs, targets in self.batches.epoch(self.recipe.batch_size, self.source):
            self.optimiser.zero_grad(set_to_none=True)
            with self._precision():
                value = self.objective(self._forward, inputs, targets)
            torch.autograd.backward(value)
            self.optimiser.step()
            values.append(value.detach())
            self._tell(told, len(values))
        self.epoch += 1
        mean = float(torch.stack(values).mean())
        self.lost = not torch.isfinite(torch.tensor(mean)).item()
        return mean

    def _tell(self, told: Callable[[float], None] | None, steps: int) -> None:
        """Call `told` after so many steps of an epoch."""
        share = steps * self.recipe.batch_size / len(self.batches)
        if told is not None and share < 1:
            told(self.epoch + share)

    def _precision(self) -> AbstractContextManager[Any]:
        return torch.autocast("cuda", torch.bfloat16) if self._fast else nullcontext()

    @torch.no_grad()
    def evaluate(self, images: torch.Tensor, targets: torch.Tensor) -> tuple[float, float]:
        """Mean cross-entropy (nats) and share of wrong predictions on bytes [n, channels, …], in evaluation mode."""
        self.model.eval()
        loss, wrong = 0.0, 0
        for part, expected in zip(images.split(CHUNK), targets.split(CHUNK), strict=True):
            logits = self.model(self.batches.normalise(part)).double()
            expected = expected.to(logits.device)
            loss += float(functional.cross_entropy(logits, expected, reduction="sum"))
            wrong += int((logits.argmax(1) != expected).sum())
        return loss / len(targets), wrong / len(targets)

    def state(self) -> dict[str, Any]:
        """Everything mutable: weights and running statistics, the optimiser's state, epoch, order of images."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "epoch": self.epoch,
            "lost": int(self.lost),
            "source": self.source.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.epoch, self.lost = state["epoch"], bool(state["lost"])
        self.source.set_state(state["source"])


def _sgd(parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        parameters, lr=recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, fused=True
    )
