"""Controls of the pipeline: shuffled labels plant a gap, and one arm drawn twice plants no difference."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from common.experiments import RunContext
from common.experiments.controls import ControlArm, shuffled

from .shared.perceptron import PerceptronParameters, Task, Training, prepare


class Parameters(PerceptronParameters, ControlArm):
    """Settings of a run; the grid varies the arm."""


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
        task = replace(task, targets=shuffled(task.targets, own))
    return task
