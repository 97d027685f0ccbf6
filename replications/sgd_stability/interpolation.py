"""Figure 6: loss and accuracy on the line between the networks of small and of large batches."""

from collections.abc import Sequence
from typing import Literal

import torch

from common.datasets import Dataset
from common.experiments import Field, RunContext
from common.experiments.one_by_one import one_by_one
from common.training import Standardise

from .shared.batch_size_comparison import KESKAR, ClassifierParameters, first, training_split
from .shared.classifiers import loss_and_error, set_flat, untrained


class Parameters(ClassifierParameters):
    """Settings of the line; those of the networks are as in large_batch."""

    ends: Literal["weights", "crossing"] = Field(
        "weights",
        description="networks after training, or where each first passed the same training loss",
        source=f"{KESKAR}; the latter our choice, D42",
    )
    points: int = Field(25, ge=4, description="values of α from −1 to 2", source=KESKAR)
    evaluated_images: int = Field(
        10_000,
        ge=20,
        unit="images",
        description="training images, and as many test images, behind each value",
        source="our choice",
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Evaluate θ(α) = (1 − α) θ_small + α θ_large at each α, seed by seed."""
    data = context.data(runs[0].dataset)
    for run in one_by_one(runs, context):
        _one_line(run, context, data)


def _one_line(run: Parameters, context: RunContext, data: Dataset) -> None:
    standardise = Standardise.by_shares(*data.train.channel_statistics())
    test = data.test.subset(len(data.test), seed="interpolation")  # MNIST's first half is harder than its second
    count = run.evaluated_images
    splits = {"training": first(training_split(run, data), count), "test": first(test, count)}
    kept = [context.artifact(run, arm, "weights") for arm in ("small", "large")]
    if not all(run.ends in weights for weights in kept):
        context.diverged(run, "one of the two networks never passed the training loss of the comparison")
        return
    ends = [weights[run.ends] for weights in kept]
    network = untrained(run.architecture, data.train.inputs[0].numel(), run.hidden).to(context.device)
    for alpha in torch.linspace(-1, 2, run.points, dtype=torch.float64).tolist():
        set_flat(network, (1 - alpha) * ends[0] + alpha * ends[1])
        values: dict[str, float] = {}
        for name, split in splits.items():
            values[f"{name}_loss"], values[f"{name}_error"] = loss_and_error(
                network, split.to(context.device), standardise
            )
        context.record(run, alpha=alpha, **values)
