"""The first images of CIFAR-10, standardised, in coordinates of the space that they span."""

from typing import NamedTuple

import torch
from torch.nn import functional

from common.experiments import RunContext
from common.training.input_span import span

from .setting import Setting


class TrainingSet(NamedTuple):
    """Inputs [n, rank], targets ([n] classes, or one-hot [n, classes]) and the basis [features, rank] of the inputs."""

    inputs: torch.Tensor
    targets: torch.Tensor
    basis: torch.Tensor


def training_set(run: Setting, context: RunContext) -> TrainingSet:
    """The first images of a run, on the context's device but for the basis.

    Each pixel is standardised by its own mean and deviation over the images that are used (D4). In coordinates of
    their span (`common.training.input_span`) a step on 500 images costs a sixth.
    """
    split = context.data(run.dataset).train
    images = split.inputs[: run.training_images].double().flatten(1)
    images = (images - images.mean(0)) / images.std(0).clamp_min(1e-6)
    basis, coordinates = span(images)
    classes = split.targets[: run.training_images]
    targets = functional.one_hot(classes, run.classes).float() if run.objective == "mse" else classes
    return TrainingSet(coordinates.float().to(context.device), targets.to(context.device), basis.float())
