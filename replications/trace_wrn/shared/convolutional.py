"""The convolutional networks of Tables 2, 4, 5, 7 and 8: settings, images, model and training of one run."""

from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from common.datasets import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.experiments.seeds import stream_seed
from common.models.all_convolutional import AllConvolutional
from common.models.preactivation_resnet import PreactivationResNet
from common.models.wide_resnet import WideResNet
from common.training.images import ImageBatches, averaged_down
from common.training.residual import Objective, Recipe, ResidualTraining, cross_entropy

from .perceptron import PAPER

SECTION_5 = f"{PAPER}, section 5"
NOT_STATED = "not stated, deviation D2"


class ConvolutionalParameters(ExperimentParameters):
    """Settings of network and training."""

    dataset: DatasetName = Field("cifar100", description="images", source=SECTION_5)
    network: Literal["cnn", "preresnet", "wrn"] = Field(
        "wrn", description="All-CNN-C, PreResNet or wide residual network", source=SECTION_5
    )
    depth: int = Field(
        28, ge=9, description="layers of PreResNet (164) or wide residual network (28)", source=SECTION_5
    )
    widening: int = Field(10, ge=1, description="k of the wide residual network", source=SECTION_5)
    width: int = Field(
        16, ge=1, description="channels of the first convolution: 96 of All-CNN-C, 16 of the others", source=SECTION_5
    )
    side: int = Field(
        32, ge=8, unit="pixels", description="side of the images; smaller ones are averaged", source=PAPER
    )
    training_images: int = Field(50_000, ge=10, unit="images", description="size of the training set", source=SECTION_5)
    test_images: int = Field(10_000, ge=10, unit="images", description="size of the test set", source=SECTION_5)
    epochs: int = Field(300, ge=1, unit="epochs", description="length of training", source=f"{PAPER}, Fig. 1")
    batch_size: int = Field(128, ge=1, unit="images", description="images a step", source=NOT_STATED)
    learning_rate: float = Field(0.1, gt=0, description="first step length: 0.01 of All-CNN-C", source=NOT_STATED)
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD", source=SECTION_5)
    weight_decay: float = Field(0.0, ge=0, description="γ of the added γ/2 ‖w‖²", source=SECTION_5)
    augment: bool = Field(True, description="padding, random crops and flips", source=NOT_STATED)
    fast: bool = Field(True, description="on a GPU, bfloat16 and compiled passes", source="our choice")


def images_of(run: ConvolutionalParameters, context: RunContext, experiment: str) -> tuple[Split, Split]:
    """Random training and test images of a seed, uint8, on the device; the same in all experiments that name one."""
    data = context.data(run.dataset)
    seed = stream_seed(experiment, "split", run.seed, {})
    training = data.train.subset(min(run.training_images, len(data.train)), seed=seed)
    test = data.test.subset(min(run.test_images, len(data.test)), seed=seed)
    small = [Split(part.name, averaged_down(part.inputs, run.side), part.targets) for part in (training, test)]
    return small[0].to(context.device), small[1].to(context.device)


def network_of(run: ConvolutionalParameters, classes: int) -> nn.Module:
    """The network with PyTorch's own initial weights; `initialise` draws those of a seed."""
    if run.network == "cnn":
        return AllConvolutional(width=run.width, classes=classes)
    if run.network == "preresnet":
        return PreactivationResNet(run.depth, width=run.width, classes=classes)
    return WideResNet(run.depth, run.widening, base=run.width, classes=classes)


def initialised(run: ConvolutionalParameters, context: RunContext, classes: int) -> nn.Module:
    """The network with the initial weights of the seed, on the device."""
    model: Any = network_of(run, classes)
    model.initialise(context.generator(run, "init"))
    moved: nn.Module = model.to(context.device)
    return moved


def train_through(
    run: ConvolutionalParameters,
    context: RunContext,
    model: nn.Module,
    images: Split,
    *,
    source: torch.Generator,
    objective: Objective = cross_entropy,
    measuring: float = 1.0,
) -> ResidualTraining:
    """Train one network to its end, or from its checkpoint on, with a record an epoch.

    Args:
        source: what the objective draws from, which checkpoints keep.
        measuring: epochs that what is measured at the end is worth, for the progress.
    """
    recipe = Recipe(run.epochs, run.batch_size, run.learning_rate, run.momentum, run.weight_decay, fast=run.fast)
    batches = ImageBatches(images.inputs, images.targets, augment=run.augment)
    training = ResidualTraining(model, batches, recipe, context.generator(run, "batches"), objective=objective)
    if (state := context.restore()) is not None:
        training.restore(state["training"])
        source.set_state(state["source"])
    while not training.over:
        loss = training.one_epoch(partial(context.progress, total=run.epochs + measuring))
        context.record(run, kind="epoch", epoch=training.epoch, step_loss=loss, norm=weight_norm(model))
        context.progress(training.epoch, run.epochs + measuring)
        context.checkpoint({"training": training.state(), "source": source.get_state()})
    return training


def performance(training: ResidualTraining, train: Split, test: Split) -> dict[str, float]:
    """Loss (nats) and error on both splits."""
    found = {}
    for label, split in (("training", train), ("test", test)):
        found[f"{label}_loss"], found[f"{label}_error"] = training.evaluate(split.inputs, split.targets)
    return found


def weight_norm(model: nn.Module) -> float:
    """‖w‖ over all parameters."""
    squares = [parameter.detach().double().square().sum() for parameter in model.parameters()]
    return float(torch.stack(squares).sum().sqrt())
