"""Controls of the pipeline: shuffled labels plant a gap; the same arm drawn again plants none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from common.experiments import Field, RunContext

from .shared.sweep import train_and_measure
from .shared.sweep_setting import SweepParameters, Task, prepare


class Parameters(SweepParameters):
    """Settings of a run; the grid varies the arm."""

    labels: Literal["true", "shuffled"] = Field(
        "true", description="training labels: as they are, or permuted among the images", source="our control"
    )
    own_streams: bool = Field(
        False, description="whether images, weights and order are drawn anew for this arm", source="our control"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together and measure along the way."""
    train_and_measure(runs, context, _prepare)


def _prepare(run: Parameters, context: RunContext) -> Task:
    task = prepare(run, context)
    own = context.generator(run, "control")
    if run.own_streams:
        keys = torch.randint(2**62, (4,), generator=own).tolist()
        subset = context.data(run.dataset).train.subset(run.training_images, seed=keys[0]).to(context.device)
        init, batches, probes = (torch.Generator().manual_seed(key) for key in keys[1:])
        task = replace(task, images=subset.inputs, targets=subset.targets, init=init, batches=batches, probes=probes)
    if run.labels == "shuffled":
        order = torch.randperm(len(task.targets), generator=own).to(task.targets.device)
        task = replace(task, targets=task.targets[order])
    return task
