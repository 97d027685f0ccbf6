"""Fine-tuning several seeds of a system at once by any method, in one batched forward and backward pass."""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional

from common.experiments import Field, RunContext
from common.training import Batches, Evaluation

from .methods import Method, Weights
from .systems import Examples, Name, Subset, System, SystemParameters, load_systems

Optimiser = Literal["sgd", "adam"]
Schedule = Literal["constant", "thirds"]
AUTHORS = "code of the talk's authors, images"
CHUNK = 250
"""Examples that each member evaluates at once."""


class TuningParameters(SystemParameters):
    """What is fine-tuned, for how long and in which steps."""

    system: Name = Field("image", description="what is fine-tuned", source="Zhang 2024, Figs. 1 to 3; deviation D1")
    epochs: int = Field(
        30, ge=1, unit="epochs", description="budget, counted in gradients of plain descent", source=AUTHORS
    )
    batch_size: int = Field(32, ge=1, unit="examples", description="examples a step", source=AUTHORS)
    optimiser: Optimiser = Field("sgd", description="what takes the steps", source="deviations D4 and D10")
    learning_rate: float = Field(0.02, gt=0, description="at the start", source="deviations D4 and D10")
    schedule: Schedule = Field(
        "constant",
        description="whether it stays, or is divided by ten after each third of the budget",
        source=f"deviation D10; thirds: {AUTHORS}",
    )
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD", source="deviation D4")

    @property
    def budget(self) -> int:
        """Gradients of a mini-batch that the fine-tuning may take."""
        return self.epochs * (self.train_examples // self.batch_size)


@dataclass(frozen=True, eq=False)
class Member:
    """A fine-tuned network, its parameters before by name, and its training and test examples."""

    model: nn.Module
    start: Weights
    train: Examples
    test: Examples


class FineTuning:
    """Members of one architecture, one a seed, each with its own start, data, batches and noise.

    `state()` holds everything that changes.

    Attributes:
        weights: parameters of all members by name, [members, …].
        start: the same before fine-tuning.
        total: steps that the method takes of the budget.
        step: steps taken.
        source: names of the data and of the pretrained weights.

    Args:
        systems: one a member; data of equal sizes. Tables that they share are held once.
        budget: in gradients of a mini-batch.
        batches, noise: generators, one a member.
        learning_rate: the usual one at the start, which a method may change.
        schedule: constant, or divided by ten after each third of the steps that the whole budget allows.
        optimiser: SGD with `momentum`, or Adam (AMSGrad) with decoupled weight decay.
        looks: how often a method that watches the validation split looks at it, evenly spread.
        one_by_one: pass the members one after the other. Whole networks gain nothing from one batch (a step of five
            MobileNetV2 takes twice as long in one, of five MiniLM as long), and vmap refuses some.
    """

    def __init__(
        self,
        systems: Sequence[System],
        method: Method,
        *,
        learning_rate: float,
        momentum: float,
        batch_size: int,
        budget: int,
        batches: Sequence[torch.Generator],
        noise: Sequence[torch.Generator],
        optimiser: Optimiser = "sgd",
        looks: int = 10,
        schedule: Schedule = "constant",
        one_by_one: bool = False,
    ) -> None:
        self.model, self.classes, self.source = systems[0].model, systems[0].classes, systems[0].source
        self.start: Weights = {
            name: torch.stack([dict(system.model.named_parameters())[name].detach() for system in systems])
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        }
        self.weights: Weights = {name: nn.Parameter(tensor.clone()) for name, tensor in self.start.items()}
        self.splits: dict[str, list[Subset]] = {
            split: [getattr(system, split) for system in systems] for split in ("train", "validation", "test")
        }
        self.method, self.noise = method, list(noise)
        self.rate, decay = method.learning_rate(learning_rate), method.weight_decay()
        self.descent = _descent(optimiser, list(self.weights.values()), self.rate, momentum, decay)
        self.rule, self.schedule = method.rule(self.descent, self.noise), schedule
        self.batches = Batches(len(self.splits["train"][0]), batch_size, batches)
        self.total, self.step = method.steps(budget), 0
        self.third = max(1, math.ceil(budget / method.gradients_per_step / 3))
        self.one_by_one = one_by_one
        self.looks = {round(self.total * (k + 1) / looks) for k in range(looks)} if method.watches_validation else set()

    def advance(self) -> None:
        """One step of all members; after the last one the method finishes."""
        members = list(range(len(self.noise)))
        weights = next(iter(self.weights.values()))
        inputs, labels = self._examples("train", list(self.batches.next(members).to(weights.device)))
        targets = functional.one_hot(labels, self.classes).to(weights)
        inputs, targets = self.method.batch(inputs, targets, self.noise)
        if self.schedule == "thirds":
            for group in self.descent.param_groups:
                group["lr"] = self.rate * 0.1 ** (self.step // self.third)
        self.rule.step(lambda: cross_entropy(self.logits(inputs), targets).sum())
        self.method.after_step(self.weights, self.start)
        self.step += 1
        if self.step in self.looks:
            self.method.observe(self.weights, self.evaluate("validation").loss)
        if self.step == self.total:
            self.method.finish(self.weights)

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """[members, n, classes] of inputs [members, n, …], with the graph."""
        if self.one_by_one:
            own = [{name: tensor[k] for name, tensor in self.weights.items()} for k in range(len(inputs))]
            return torch.stack([functional_call(self.model, *pair) for pair in zip(own, inputs, strict=True)])
        outputs: torch.Tensor = vmap(lambda w, x: functional_call(self.model, w, (x,)))(self.weights, inputs)
        return outputs

    @torch.no_grad()
    def evaluate(self, split: str) -> Evaluation:
        """Each member on all of a split."""
        count = len(self.splits[split][0])
        found = []
        for begin in range(0, count, CHUNK):
            inputs, labels = self._examples(split, [slice(begin, begin + CHUNK)] * len(self.noise))
            found.append((self.logits(inputs), labels))
        logits, labels = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        targets = functional.one_hot(labels, self.classes).to(logits)
        return Evaluation(cross_entropy(logits, targets), (logits.argmax(-1) != labels).double().mean(1))

    def _examples(self, split: str, places: Sequence[torch.Tensor | slice]) -> Examples:
        """Inputs [members, n, …] and labels [members, n] at places of each member's part."""
        parts = [part.examples(chosen) for part, chosen in zip(self.splits[split], places, strict=True)]
        inputs, labels = (torch.stack(tensors) for tensors in zip(*parts, strict=True))
        return inputs, labels

    def performance(self) -> list[dict[str, float]]:
        """Of each member `training_loss`, `training_error` and the same of `validation` and `test`."""
        columns: dict[str, list[float]] = {}
        for split, name in (("train", "training"), ("validation", "validation"), ("test", "test")):
            found = self.evaluate(split)
            columns |= {f"{name}_loss": found.loss.tolist(), f"{name}_error": found.error.tolist()}
        return [{name: values[member] for name, values in columns.items()} for member in range(len(self.noise))]

    def first_training_losses(self) -> list[float]:
        """Cross-entropy of each member on its training examples before fine-tuning."""
        now = self.weights
        self.weights = self.start
        try:
            return [float(loss) for loss in self.evaluate("train").loss]
        finally:
            self.weights = now

    def module(self, member: int) -> nn.Module:
        """An ordinary network with a copy of the member's weights."""
        model = deepcopy(self.model)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in self.weights:
                    parameter.copy_(self.weights[name][member])
        return model

    def member(self, member: int) -> Member:
        """One member; its network is an ordinary one with a copy of its weights."""
        start = {name: tensor[member] for name, tensor in self.start.items()}
        train, test = (self.splits[split][member].examples() for split in ("train", "test"))
        return Member(self.module(member), start, train, test)

    def state(self) -> dict[str, Any]:
        """What must be kept to go on later."""
        return {
            "step": self.step,
            "weights": {name: tensor.detach() for name, tensor in self.weights.items()},
            "rule": self.rule.state_dict(),
            "batches": self.batches.state(),
            "method": self.method.state(),
            "noise": [generator.get_state() for generator in self.noise],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self.step = state["step"]
        with torch.no_grad():
            for name, tensor in self.weights.items():
                tensor.copy_(state["weights"][name])
        self.rule.load_state_dict(state["rule"])
        self.batches.restore(state["batches"])
        self.method.restore(state["method"], self.weights)
        for generator, saved in zip(self.noise, state["noise"], strict=True):
            generator.set_state(saved)


def tuning_of(
    runs: Sequence[TuningParameters],
    context: RunContext,
    method: Method,
    systems: Sequence[System] | None = None,
    *,
    one_by_one: bool = False,
) -> FineTuning:
    """The fine-tuning of the seeds of one setting, each with its own streams and its own of `systems`, if given."""
    setting = runs[0]
    return FineTuning(
        systems or load_systems(setting.system, runs, context),
        method,
        learning_rate=setting.learning_rate,
        momentum=setting.momentum,
        batch_size=setting.batch_size,
        budget=setting.budget,
        batches=[context.generator(run, "batches") for run in runs],
        noise=[context.generator(run, "noise") for run in runs],
        optimiser=setting.optimiser,
        schedule=setting.schedule,
        one_by_one=one_by_one,
    )


def _descent(
    name: Optimiser, parameters: list[torch.Tensor], rate: float, momentum: float, decay: float
) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, amsgrad=True, fused=True)
    return torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay)


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy [members] of logits [members, n, classes] and target probabilities of that shape."""
    return -(targets * logits.log_softmax(-1)).sum(-1).mean(1)
