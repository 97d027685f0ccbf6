"""Controls of the pipeline: shuffled labels plant a gap; the same arm drawn again plants none."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from common.experiments import RunContext
from common.experiments.controls import ControlArm, shuffled

from .shared.sweep import train_and_measure
from .shared.sweep_setting import SweepParameters, Task, prepare


class Parameters(SweepParameters, ControlArm):
    """Settings of a run; the grid varies the arm."""


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
        task = replace(task, targets=shuffled(task.targets, own))
    return task
