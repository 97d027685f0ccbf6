"""Images and kept weights of the two-layer networks, one task a seed."""

from collections.abc import Sequence
from typing import Any

import torch

from common.experiments import RunContext
from common.experiments.seeds import stream_seed

from .sweep_setting import MNIST
from .two_layer import Problem, Sizes

CLASSES = 10


def load_problem(runs: Sequence[Any], context: RunContext) -> tuple[Problem, Problem]:
    """Training and test images of each run's seed, [k, n, 784] in float32; the test set is shared.

    The subset of training images depends on the seed alone, so that networks are measured on what they were trained on.
    """
    setting = runs[0]
    data = context.data(setting.dataset)
    inputs, targets = [], []
    for run in runs:
        seed = stream_seed("two_layer_network", "split", run.seed, {})
        subset = data.train.subset(run.training_images, seed=seed).to(context.device)
        inputs.append(MNIST(subset.inputs).flatten(1))
        targets.append(subset.targets)
    images = torch.stack(inputs)
    sizes = Sizes(images.shape[2], setting.width, CLASSES)
    test = data.test.to(context.device)
    held_out = MNIST(test.inputs).flatten(1).expand(len(runs), -1, -1)
    return Problem(sizes, images, torch.stack(targets)), Problem(sizes, held_out, test.targets.expand(len(runs), -1))


def load_weights(runs: Sequence[Any], context: RunContext) -> tuple[torch.Tensor, torch.Tensor]:
    """Initial and trained weights of the needed networks, [k, m] each, float64."""
    kept = [context.artifact(run, "network", "weights") for run in runs]
    initial, trained = (torch.stack([tensors[name] for tensors in kept]).double() for name in ("initial", "trained"))
    return initial, trained
