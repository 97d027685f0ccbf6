"""Training the transformer on a table of a ∘ b mod p for several seeds at once, and what is measured along the way.

What all experiments on the network share.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from common.experiments import ExperimentParameters, Field, RunContext
from common.hessian import Problem, sharpness, trace
from common.models import LayeredTransformer, ModularTransformer
from common.optim import (
    EqualGradientNoise,
    GaussianNoise,
    GradientRule,
    NoiseStability,
    PlainGradient,
    WeightPerturbation,
)

PAPER = "Zhang 2024"
USUAL = "usual set-up (Power et al. 2022)"
OURS = "our choice"
CHUNK = 1_000
"""Pairs a member evaluates at once."""

Operation = Literal["add", "subtract", "multiply", "divide"]
Rule = Literal["plain", "nso", "wp_sgd", "gradient_noise"]
NOISY = {"nso": NoiseStability, "wp_sgd": WeightPerturbation, "gradient_noise": EqualGradientNoise}


class TrainingParameters(ExperimentParameters):
    """Settings of one training run and of its measurements."""

    modulus: int = Field(97, gt=2, description="p, a prime", source=f"{PAPER}, Fig. 4")
    operation: Operation = Field("add", description="what ∘ stands for", source="not stated, deviation D1")
    train_fraction: float = Field(
        0.5, gt=0, lt=1, description="share of the table that is trained on", source="not stated, deviation D1"
    )
    layers: int = Field(2, ge=1, description="blocks of the transformer", source=USUAL)
    width: int = Field(128, ge=4, description="length of a token's vector", source=USUAL)
    heads: int = Field(4, ge=1, description="attention heads", source=USUAL)
    batch_size: int = Field(512, ge=1, unit="pairs", description="the most pairs a step takes", source=USUAL)
    learning_rate: float = Field(1e-3, gt=0, description="of AdamW", source=USUAL)
    weight_decay: float = Field(0.0, ge=0, description="λ, decoupled, of AdamW", source="not stated, deviation D1")
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW's decay of the mean", source=USUAL)
    beta2: float = Field(0.98, ge=0, lt=1, description="AdamW's decay of the mean square", source=USUAL)
    epsilon: float = Field(1e-8, gt=0, description="ε, AdamW's floor below the root of the mean square", source=USUAL)
    warm_up: int = Field(10, ge=1, unit="steps", description="linear rise of the learning rate", source=USUAL)
    rule: Rule = Field("plain", description="which gradient AdamW is given", source=f"{PAPER}, Figs. 3 and 4")
    noise_scale: float = Field(
        0.01, gt=0, description="σ of the perturbation of every weight", source="not stated, deviation D1"
    )
    draws: int = Field(1, ge=1, description="k, perturbations a step", source="not stated, deviation D1")
    averaging: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay of the mean of the weights that is evaluated for them; 0: none",
        source="our control",
    )
    steps: int = Field(100_000, ge=1, unit="steps", description="length of training", source="not stated, D2")
    lengthening: int = Field(1, ge=1, description="how many times `steps` this arm takes", source="deviation D4")
    evaluation_interval: int = Field(25, ge=1, unit="steps", description="between evaluations", source=OURS)
    window: int = Field(
        500,
        ge=1,
        unit="steps",
        description="after first reaching 99 %, over which fluctuation is taken",
        source="deviation D5",
    )
    curvature_times: int = Field(6, ge=0, description="measurements of the Hessian, evenly spread", source=OURS)
    curvature_pairs: int = Field(1_024, ge=8, unit="pairs", description="behind the Hessian", source=OURS)
    curvature_error: float = Field(0.05, gt=0, lt=1, description="wanted relative error of Tr H and λ₁", source=OURS)


@dataclass(frozen=True)
class Task:
    """What one seed trains on, pairs int64 [n, 2] and answers [n], and the rest of the table."""

    train_pairs: torch.Tensor
    train_answers: torch.Tensor
    validation_pairs: torch.Tensor
    validation_answers: torch.Tensor


def table(modulus: int, operation: Operation) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs (a, b) int64 [n, 2] for which a ∘ b is defined, and a ∘ b mod p [n].

    Division is by the inverse modulo p and leaves out b = 0.

    Raises:
        ValueError: division modulo a number that is not prime.
    """
    residues = torch.arange(modulus)
    pairs = torch.cartesian_prod(residues, residues)
    if operation == "divide":
        if any(modulus % k == 0 for k in range(2, math.isqrt(modulus) + 1)):
            raise ValueError(f"division modulo {modulus}, which is not prime.")
        pairs = pairs[pairs[:, 1] > 0]
        inverses = torch.tensor([0] + [pow(b, -1, modulus) for b in range(1, modulus)])
        return pairs, pairs[:, 0] * inverses[pairs[:, 1]] % modulus
    a, b = pairs.unbind(1)
    answers = {"add": a + b, "subtract": a - b, "multiply": a * b}[operation]
    return pairs, answers % modulus


def split_table(run: TrainingParameters, generator: torch.Generator) -> Task:
    """The table of a run, divided at random."""
    pairs, answers = table(run.modulus, run.operation)
    order = torch.randperm(len(pairs), generator=generator)
    count = round(run.train_fraction * len(pairs))
    train, rest = order[:count], order[count:]
    return Task(pairs[train], answers[train], pairs[rest], answers[rest])


def member_losses(logits: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy [members] of logits [members, n, p] and answers [members, n]."""
    losses = functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
    return losses.view(answers.shape).mean(1)


class Training:
    """The loop's moving parts; `state()` holds everything that changes.

    Args:
        tasks: one for each run, of equal size.
    """

    def __init__(self, runs: Sequence[TrainingParameters], context: RunContext, tasks: Sequence[Task]) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        setting = self.setting
        self.model = ModularTransformer(
            setting.modulus, layers=setting.layers, width=setting.width, heads=setting.heads, members=len(runs)
        )
        self.model.initialise([context.generator(run, "init") for run in runs]).to(context.device)
        self.pairs, self.answers, self.validation_pairs, self.validation_answers = (
            torch.stack([getattr(task, name) for task in tasks]).to(context.device)
            for name in ("train_pairs", "train_answers", "validation_pairs", "validation_answers")
        )
        average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(setting.averaging))
        self.average = average if setting.averaging else None
        self.judged = cast(ModularTransformer, average.module) if setting.averaging else self.model
        self.rule = self._rule()
        self.batches = [context.generator(run, "batches") for run in runs]
        self.steps_per_epoch = -(-self.answers.shape[1] // setting.batch_size)
        self.order = torch.empty(0, dtype=torch.int64)
        self.step = 0
        self.alive = [True] * len(runs)
        self.total = setting.steps * setting.lengthening
        self.evaluations = evaluation_steps(self.total, setting.evaluation_interval)
        self.curvatures = {
            round(self.total * k / setting.curvature_times) for k in range(1, setting.curvature_times + 1)
        }

    def _rule(self) -> GradientRule:
        setting, parameters = self.setting, list(self.model.parameters())
        optimiser = torch.optim.AdamW(
            parameters,
            lr=setting.learning_rate,
            betas=(setting.beta1, setting.beta2),
            eps=setting.epsilon,
            weight_decay=setting.weight_decay,
            fused=True,
        )
        if setting.rule == "plain":
            return PlainGradient(optimiser)
        generators = [self.context.generator(run, "noise") for run in self.runs]
        noise = GaussianNoise(parameters, scale=setting.noise_scale, generators=generators)
        return NOISY[setting.rule](optimiser, noise, draws=setting.draws)

    def state(self) -> dict[str, Any]:
        """What must be kept to go on later."""
        return {
            "step": self.step,
            "alive": [int(value) for value in self.alive],
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "rule": self.rule.state_dict(),
            "batches": [generator.get_state() for generator in self.batches],
            "order": self.order,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue from `state()`; with None from the start."""
        if state is None:
            return
        self.step = state["step"]
        self.alive = [bool(value) for value in state["alive"]]
        self.model.load_state_dict(state["model"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.rule.load_state_dict(state["rule"])
        self.order = state["order"]
        for generator, saved in zip(self.batches, state["batches"], strict=True):
            generator.set_state(saved)

    def train(self) -> None:
        """Take all steps that are left, with measurements on the way."""
        if self.step == 0:
            self._measure()
        while self.step < self.total:
            self._one_step()
            self._measure()
            self.context.progress(self.step, self.total)
            self.context.checkpoint(self.state())

    def _one_step(self) -> None:
        """A step of all members on their own batches; an epoch is divided into batches of nearly equal size."""
        number = self.step % self.steps_per_epoch
        if number == 0:
            count = self.answers.shape[1]
            self.order = torch.stack([torch.randperm(count, generator=generator) for generator in self.batches])
        chosen = self.order.tensor_split(self.steps_per_epoch, dim=1)[number].to(self.answers.device)
        answers = self.answers.gather(1, chosen)
        pairs = self.pairs.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 2))
        for group in self.rule.optimiser.param_groups:
            group["lr"] = self.setting.learning_rate * min(1.0, (self.step + 1) / self.setting.warm_up)
        self.rule.step(lambda: member_losses(self.model(pairs), answers).sum())
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.step += 1

    def _measure(self) -> None:
        """Record what is due at this step; one whose loss is not finite is reported once and left out after."""
        if self.step in self.evaluations:
            rows = self._evaluation()
            for member, run in enumerate(self.runs):
                if self.alive[member] and not math.isfinite(rows[member]["training_loss"]):
                    self.alive[member] = False
                    self.context.diverged(run, f"training loss not finite at step {self.step}")
                if self.alive[member]:
                    self.context.record(run, kind="evaluation", step=self.step, **rows[member])
        if self.step in self.curvatures:
            for member, run in enumerate(self.runs):
                if self.alive[member]:
                    self.context.record(run, kind="curvature", step=self.step, **self._curvature(member))

    def _evaluation(self) -> list[dict[str, float]]:
        """Accuracy and loss of each member on all validation pairs and on as many, at most 1,000, training pairs."""
        columns: dict[str, torch.Tensor] = {}
        seen = {
            "training": (self.pairs[:, :CHUNK], self.answers[:, :CHUNK]),
            "validation": (self.validation_pairs, self.validation_answers),
        }
        with torch.no_grad():
            for name, (pairs, answers) in seen.items():
                logits = torch.cat([self.judged(part) for part in pairs.split(CHUNK, dim=1)], dim=1)
                columns[f"{name}_accuracy"] = (logits.argmax(-1) == answers).double().mean(1)
                columns[f"{name}_loss"] = member_losses(logits, answers)
        columns["gradients"] = torch.full((len(self.runs),), self.rule.gradient_evaluations)
        lists = {name: values.tolist() for name, values in columns.items()}
        return [{name: values[member] for name, values in lists.items()} for member in range(len(self.runs))]

    def _curvature(self, member: int) -> dict[str, float]:
        """Tr H and λ₁ of the loss on training pairs and Tr H on validation pairs, and the norm of the weights."""
        layered = LayeredTransformer(self.judged, member)
        count, error = self.setting.curvature_pairs, self.setting.curvature_error
        seed = self.context.stream_seed(self.runs[member], "probes")
        seen = self.pairs[member, :count], self.answers[member, :count]
        held_out = self.validation_pairs[member, :count], self.validation_answers[member, :count]
        training = Problem(self.judged.member(member), functional.cross_entropy, seen)
        largest = sharpness(training, relative_error=error, products=40, seed=seed).estimate
        row = {
            "sharpness": largest.value,
            "sharpness_bound": largest.bound,
            "weight_norm": float(training.vector().norm()),
            "curvature_loss": training.loss(),
        }
        for name, data in (("trace", seen), ("validation_trace", held_out)):
            problem = Problem(layered, functional.cross_entropy, data)
            found = trace(problem, method="sample signs", relative_error=error, budget=100, seed=seed)
            row |= {name: found.value, f"{name}_standard_error": found.standard_error}
        return row


def evaluation_steps(total: int, interval: int) -> set[int]:
    """Steps at which accuracies are taken: 1, 2, 5 times the powers of ten up to the interval, then every interval."""
    early = {factor * 10**power for power in range(6) for factor in (1, 2, 5)}
    return {step for step in early if step < interval} | set(range(0, total + 1, interval)) | {total}


def train_and_measure(runs: Sequence[TrainingParameters], context: RunContext) -> None:
    """Train all seeds of one arm together; the final weights are kept as `weights`."""
    training = Training(runs, context, [split_table(run, context.generator(run, "split")) for run in runs])
    training.restore(context.restore())
    training.train()
    for member, run in enumerate(runs):
        context.save(run, "weights", dict(training.judged.member(member).named_parameters()))
