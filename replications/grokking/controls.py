"""Controls of the pipeline: shuffled answers cannot be generalised; the same arm drawn again makes no difference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from common.experiments import Field, RunContext

from .shared.training import Task, Training, TrainingParameters, split_table


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies the arm."""

    answers: Literal["true", "shuffled"] = Field(
        "true", description="training answers: as they are, or permuted among the pairs", source="our control"
    )
    own_split: bool = Field(False, description="whether the table is divided anew for this arm", source="our control")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together."""
    training = Training(runs, context, [_task(run, context) for run in runs])
    training.restore(context.restore())
    training.train()


def _task(run: Parameters, context: RunContext) -> Task:
    own = context.generator(run, "control")
    task = split_table(run, own if run.own_split else context.generator(run, "split"))
    if run.answers == "shuffled":
        order = torch.randperm(len(task.train_answers), generator=own)
        task = replace(task, train_answers=task.train_answers[order])
    return task
