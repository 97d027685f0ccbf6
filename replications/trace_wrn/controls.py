"""Controls of the pipeline: shuffled labels plant a gap, and one arm drawn twice plants no difference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from common.experiments import Field, RunContext

from .shared.perceptron import PerceptronParameters, Task, Training, prepare


class Parameters(PerceptronParameters):
    """Settings of a run; the grid varies the arm."""

    labels: Literal["true", "shuffled"] = Field(
        "true", description="training labels: as they are, or permuted among the images", source="our control"
    )
    own_streams: bool = Field(
        False, description="whether images, weights and order are drawn anew for this arm", source="our control"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together."""
    training = Training(runs, context, [_task(run, context) for run in runs])
    training.restore(context.restore())
    training.train()


def _task(run: Parameters, context: RunContext) -> Task:
    task = prepare(run, context)
    own = context.generator(run, "control")
    if run.own_streams:
        keys = torch.randint(2**62, (3,), generator=own).tolist()
        data = context.data(run.dataset).train.subset(run.training_images, seed=keys[0]).to(context.device)
        streams = (torch.Generator().manual_seed(key) for key in keys[1:])
        task = Task(data.inputs.flatten(1), data.targets, *streams)
    if run.labels == "shuffled":
        order = torch.randperm(len(task.targets), generator=own).to(task.targets.device)
        task = replace(task, targets=task.targets[order])
    return task
