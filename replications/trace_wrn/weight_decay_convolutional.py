"""Tables 2, 4 and 5: All-CNN-C, PreResNet-164 and WRN-28-10 on CIFAR-100 under weight decay."""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem, trace
from common.training.images import ImageBatches
from common.training.residual import Recipe, ResidualTraining

from .shared.convolutional import ConvolutionalParameters, images_of, initialised, weight_norm
from .shared.curvature import OutlierParameters, curvature_columns

NAME = "weight_decay_convolutional"


class Parameters(ConvolutionalParameters, OutlierParameters):
    """Settings of training and measurement; the grid varies the network and `weight_decay`."""

    curvature_images: int = Field(
        50_000, ge=10, unit="images", description="training images behind the curvature", source="section 5: all"
    )
    trace_error: float = Field(
        0.02, gt=0, lt=1, description="wanted relative standard error of Tr H", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train one network, keep it, and measure the unregularised loss on training images, norms in evaluation mode."""
    for run in runs:
        train, test = images_of(run, context, NAME)
        classes = context.data(run.dataset).classes
        model = initialised(run, context, classes)
        initial = weight_norm(model)
        recipe = Recipe(run.epochs, run.batch_size, run.learning_rate, run.momentum, run.weight_decay, fast=run.fast)
        batches = ImageBatches(train.inputs, train.targets, augment=run.augment)
        training = ResidualTraining(model, batches, recipe, context.generator(run, "batches"))
        if (state := context.restore()) is not None:
            training.restore(state)
        while not training.over:
            loss = training.one_epoch()
            context.record(run, kind="epoch", epoch=training.epoch, step_loss=loss, norm=weight_norm(model))
            context.progress(training.epoch, run.epochs + 1)
            context.checkpoint(training.state())
        context.save(run, "network", {name: tensor.float() for name, tensor in model.state_dict().items()})
        if training.lost:
            context.diverged(run, f"training loss not finite in epoch {training.epoch}")
            continue
        performance = {}
        for label, split in (("training", train), ("test", test)):
            performance[f"{label}_loss"], performance[f"{label}_error"] = training.evaluate(split.inputs, split.targets)
        model.eval()
        few = slice(0, run.curvature_images)
        data = batches.normalise(train.inputs[few]), train.targets[few]
        _measure(run, context, Problem(model, nn.CrossEntropyLoss(), data), initial, performance)


def _measure(
    run: Parameters, context: RunContext, problem: Problem, initial: float, performance: dict[str, float]
) -> None:
    source = context.generator(run, "probes")
    seeds = torch.randint(2**31, (2,), generator=source).tolist()
    total = trace(problem, relative_error=run.trace_error, seed=seeds[0])
    context.record(
        run,
        kind="final",
        parameters=problem.size,
        initial_norm=initial,
        norm=weight_norm(problem.model),
        **curvature_columns(Hessian(problem), total, run, seed=seeds[1], source=source),
        **performance,
    )
