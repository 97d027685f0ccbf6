"""Tables 2, 4 and 5: All-CNN-C, PreResNet-164 and WRN-28-10 on CIFAR-100 under weight decay."""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem, trace
from common.models.residual import initialise_convolutions

from .shared.convolutional import (
    ConvolutionalParameters,
    images_of,
    initialised,
    performance,
    train_through,
    weight_norm,
)
from .shared.curvature import OutlierParameters, curvature_columns

NAME = "weight_decay_convolutional"
GRADIENTS = 100
"""Gradients of the curvature images that their measures are worth: on a thin network one for Tr H, 64 for ten
eigenvalues and 32 for sixteen probes."""


class Parameters(ConvolutionalParameters, OutlierParameters):
    """Settings of training and measurement; the grid varies the network and `weight_decay`."""

    curvature_images: int = Field(
        50_000, ge=2, unit="images", description="training images behind the curvature", source="section 5: all"
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
        if run.network == "cnn":  # without normalisation a thin one stays where PyTorch's own weights begin (D7)
            initialise_convolutions(model, context.generator(run, "init"), "fan_in_normal")
        initial = weight_norm(model)
        source = context.generator(run, "probes")
        measuring = GRADIENTS * min(run.curvature_images, len(train)) / len(train)
        training = train_through(run, context, model, train, source=source, measuring=measuring)
        context.save(run, "network", {name: tensor.float() for name, tensor in model.state_dict().items()})
        if training.lost:
            context.diverged(run, f"training loss not finite in epoch {training.epoch}")
            continue
        values = performance(training, train, test)
        model.eval()
        few = slice(0, run.curvature_images)
        data = training.batches.normalise(train.inputs[few]), train.targets[few]
        problem = Problem(model, nn.CrossEntropyLoss(), data)
        seeds = torch.randint(2**31, (2,), generator=source).tolist()
        total = trace(problem, relative_error=run.trace_error, seed=seeds[0])
        context.record(
            run,
            kind="final",
            parameters=problem.size,
            initial_norm=initial,
            norm=weight_norm(model),
            **curvature_columns(Hessian(problem), total, run, seed=seeds[1], source=source),
            **values,
        )
