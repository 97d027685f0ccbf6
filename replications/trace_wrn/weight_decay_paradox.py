"""Table 1: the MNIST perceptron under weight decay; gaps, curvature, and every reading of the measure a.

The tables' other networks are trained by `weight_decay_convolutional`; what the published numbers say by themselves
is in `published_tables`.
"""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem, spectrum, trace

from .shared.curvature import DensityParameters, OutlierParameters, curvature_columns, record_nodes
from .shared.perceptron import PerceptronParameters, Training, normalised, prepare

TRAINING_SHARE = 0.4
"""Part of the work that is training, for the progress that is shown."""


class Parameters(PerceptronParameters, DensityParameters, OutlierParameters):
    """Settings of training and measurement; the grid varies `weight_decay`."""

    eigenvalue_error: float = Field(0.01, gt=0, lt=1, description="wanted relative error of each", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one weight decay together, then measure the unregularised loss of one after the other."""
    training = Training(runs, context, [prepare(run, context) for run in runs])
    training.restore(context.restore())
    training.train(TRAINING_SHARE)
    while training.measured < len(runs):
        member = training.measured
        if not training.lost(member):
            _measure(training, member, runs[member], context)
        training.keep(member)
        training.measured += 1
        done = training.measured / len(runs)
        context.progress(TRAINING_SHARE + (1 - TRAINING_SHARE) * done, 1.0, "curvature")
        context.checkpoint(training.state())


def _measure(training: Training, member: int, run: Parameters, context: RunContext) -> None:
    """Curvature over the whole training set: exact trace, λ₁, Tr H² with its error, and the nodes of the density."""
    data = normalised(training.images[member]), training.targets[member]
    problem = Problem(training.ensemble.module(member), nn.CrossEntropyLoss(), data)
    matrix = Hessian(problem)
    source = context.generator(run, "probes")
    seeds = torch.randint(2**31, (2,), generator=source).tolist()
    columns = curvature_columns(matrix, trace(problem), run, seed=seeds[0], source=source)
    density = spectrum(matrix, vectors=run.start_vectors, steps=run.moments, seed=seeds[1])
    context.record(
        run,
        kind="final",
        epoch=training.epoch,
        parameters=problem.size,
        initial_norm=float(training.initial[member].double().norm()),
        **columns,
        **training.performance()[member],
    )
    record_nodes(context, run, density)
