"""Tables 2, 4 and 5: All-CNN-C, PreResNet-164 and WRN-28-10 on CIFAR-100 under weight decay."""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem, eigenpairs, trace
from common.training.images import ImageBatches
from common.training.residual import Recipe, ResidualTraining

from .shared.convolutional import ConvolutionalParameters, images_of, initialised, weight_norm
from .shared.curvature import squared_norm

NAME = "weight_decay_convolutional"


class Parameters(ConvolutionalParameters):
    """Settings of training and measurement; the grid varies the network and `weight_decay`."""

    curvature_images: int = Field(
        50_000, ge=10, unit="images", description="training images behind the curvature", source="section 5: all"
    )
    trace_error: float = Field(
        0.02, gt=0, lt=1, description="wanted relative standard error of Tr H", source="our choice"
    )
    outliers: int = Field(10, ge=1, description="extreme eigenvalues that are computed one by one", source="our choice")
    norm_probes: int = Field(16, ge=2, description="probes of what else is in Tr H²", source="our choice")
    eigenvalue_error: float = Field(0.05, gt=0, lt=1, description="wanted relative error of each", source="our choice")


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
    matrix = Hessian(problem)
    total = trace(problem, relative_error=run.trace_error, seed=seeds[0])
    pairs = eigenpairs(matrix, run.outliers, relative_error=run.eigenvalue_error, seed=seeds[1])
    squared, squared_error = squared_norm(matrix, pairs, run.norm_probes, source)
    largest = int(pairs.values.argmax())
    context.record(
        run, kind="final", parameters=problem.size, initial_norm=initial, norm=weight_norm(problem.model),
        trace=total.value, trace_error=total.error, trace_squared=squared, trace_squared_error=squared_error,
        sharpness=float(pairs.values[largest]), sharpness_bound=float(pairs.errors[largest]),
        sharpness_converged=pairs.converged, **performance,
    )  # fmt: skip
