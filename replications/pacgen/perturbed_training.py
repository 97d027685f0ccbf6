"""Figure 7: training and test accuracy of a wide residual network with and without Perturbed OPT (Algorithm 1)."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from torch import nn

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models.wide_resnet import WideResNet
from common.optim import GradientRule, IsotropicOpt, PerturbationRule, PerturbedOpt, PlainGradient
from common.training.images import ImageBatches, averaged_down
from common.training.residual import Recipe
from common.training.rules import RuleTraining
from common.training.schedules import constant

PAPER = "Wang et al. 2018"
SECTION = f"{PAPER}, section 8"
ALGORITHM = f"{PAPER}, Algorithm 1"
OPEN = "not stated, deviation D20"


class Parameters(ExperimentParameters):
    """Settings of a run; the grid varies the data set, with what belongs to it, and the arm."""

    dataset: DatasetName = Field("cifar10", description="images", source=SECTION)
    depth: int = Field(58, ge=10, description="layers of the wide residual network", source=SECTION)
    widening: int = Field(3, ge=1, description="k of the wide residual network", source=SECTION)
    width: int = Field(16, ge=1, description="channels of the first convolution", source="the linked implementation")
    side: int = Field(
        32, ge=8, unit="pixels", description="side of the images; larger ones are averaged", source="deviation D21"
    )
    training_images: int = Field(
        100_000, ge=10, unit="images", description="most training images; all, if there are fewer", source=SECTION
    )
    test_images: int = Field(
        10_000, ge=10, unit="images", description="most test images; all, if there are fewer", source=SECTION
    )
    augment: bool = Field(True, description="padding, random crops and flips", source=OPEN)
    epochs: int = Field(200, ge=1, unit="epochs", description="length of training", source=OPEN)
    evaluate_every: int = Field(1, ge=1, unit="epochs", description="from one evaluation to the next", source=OPEN)
    batch_size: int = Field(128, ge=1, unit="images", description="images a step", source=SECTION)
    optimiser: Literal["adam", "sgd"] = Field("adam", description="OPT of Algorithm 1", source=SECTION)
    learning_rate: float = Field(1e-4, gt=0, description="step length, constant", source=SECTION)
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD", source=OPEN)
    weight_decay: float = Field(0.0, ge=0, description="γ of γ/2 ‖w‖² in OPT", source="our control")
    method: Literal["none", "perturbed", "isotropic"] = Field(
        "none", description="gradients at w, at w + u, or at w + noise of the norm of u", source=SECTION
    )
    eta: float = Field(0.01, gt=0, description="η of Algorithm 1", source=SECTION)
    gamma: float = Field(10.0, ge=0, description="γ of Algorithm 1", source=SECTION)
    gamma_share: float = Field(1.0, ge=0, description="what of γ is used", source="our control")
    epsilon: float = Field(1e-5, gt=0, description="ε of Algorithm 1", source=SECTION)
    beta1: float = Field(0.999, ge=0, lt=1, description="decay of the average of g²", source=ALGORITHM)
    beta2: float = Field(0.1, ge=0, description="limit of |g| for a perturbation", source=ALGORITHM)
    fast: bool = Field(True, description="on a GPU, bfloat16 and compiled passes", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train one network at a time; accuracies at the unperturbed weights over the epochs, and the perturbation."""
    for run in runs:
        data = context.data(run.dataset)
        seed = context.stream_seed(run, "split")
        train = _part(data.train, run.training_images, seed, run.side).to(context.device)
        test = _part(data.test, run.test_images, seed, run.side).to(context.device)
        training = _training(run, context, train, data.classes)
        if (state := context.restore()) is not None:
            training.restore(state)
        while not training.over:
            loss = training.one_epoch(partial(context.progress, total=run.epochs))
            if training.lost:
                context.record(run, epoch=training.epoch, step_loss=loss)
                context.diverged(run, f"training loss not finite in epoch {training.epoch}")
                break
            values = {"epoch": training.epoch, "step_loss": loss, "step_accuracy": 100 * (1 - training.step_error)}
            if training.epoch % run.evaluate_every == 0 or training.over:
                values |= _accuracies(training, train, test)
            context.record(run, **values, **_perturbation(training.rule))
            context.progress(training.epoch, run.epochs)
            context.checkpoint(training.state())


def _part(split: Split, count: int, seed: int, side: int) -> Split:
    chosen = split.subset(min(count, len(split)), seed=seed)
    return Split(chosen.name, averaged_down(chosen.inputs, side), chosen.targets)


def _training(run: Parameters, context: RunContext, train: Split, classes: int) -> RuleTraining:
    model = WideResNet(run.depth, run.widening, base=run.width, classes=classes)
    model.initialise(context.generator(run, "init"))
    recipe = Recipe(run.epochs, run.batch_size, run.learning_rate, schedule=constant, fast=run.fast)
    batches = ImageBatches(train.inputs, train.targets, augment=run.augment)
    noise = torch.Generator(context.device).manual_seed(context.stream_seed(run, "noise"))
    return RuleTraining(
        model.to(context.device),
        batches,
        recipe,
        context.generator(run, "batches"),
        optimiser=partial(_optimiser, run),
        rule=partial(_rule, run, noise, -(-len(batches) // run.batch_size)),
    )


def _optimiser(run: Parameters, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if run.optimiser == "adam":
        return torch.optim.Adam(parameters, lr=run.learning_rate, weight_decay=run.weight_decay, fused=True)
    return torch.optim.SGD(
        parameters, lr=run.learning_rate, momentum=run.momentum, weight_decay=run.weight_decay, fused=True
    )


def _rule(
    run: Parameters, noise: torch.Generator, steps_per_epoch: int, optimiser: torch.optim.Optimizer
) -> GradientRule:
    if run.method == "none":
        return PlainGradient(optimiser)
    constants = PerturbationRule(run.eta, run.gamma_share * run.gamma, run.epsilon, run.beta1, run.beta2)
    kind = PerturbedOpt if run.method == "perturbed" else IsotropicOpt
    return kind(optimiser, constants, steps_per_epoch=steps_per_epoch, generator=noise)


def _accuracies(training: RuleTraining, train: Split, test: Split) -> dict[str, float]:
    """In per cent at the unperturbed weights, in evaluation mode."""
    found: dict[str, float] = {}
    for label, split in (("training", train), ("test", test)):
        loss, error = training.evaluate(split.inputs, split.targets)
        found |= {f"{label}_loss": loss, f"{label}_accuracy": 100 * (1 - error)}
    return found


def _perturbation(rule: GradientRule) -> dict[str, float]:
    """What Algorithm 1 would do next: shares of the coordinates, and the norm of u over that of the weights."""
    if not isinstance(rule, PerturbedOpt):
        return {}
    levels = rule.levels()
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in rule.parameters])
    size = float(levels.sigma.norm() / 3**0.5 / weights.norm())
    return {"open_share": levels.open_share, "curvature_share": levels.curvature_share, "noise_over_weights": size}
