"""Is the measure invariant to the parameterisation, as the abstract says? One function, (α W₁, α b₁, W₂/α)."""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.experiments.one_by_one import one_by_one
from common.hessian import Hessian, Problem, sharpness, spectrum, trace
from common.models import rescale

from .shared.curvature import DensityParameters, record_nodes
from .shared.perceptron import PAPER, PerceptronParameters
from .shared.trained_perceptron import images_of, network_of


class Parameters(PerceptronParameters, DensityParameters):
    """Settings: those of the trained network, and α."""

    alpha: float = Field(
        1.0, gt=0, description="factor on the first layer, its inverse on the second", source=f"{PAPER}, section 4"
    )
    curvature_images: int = Field(
        10_000, ge=10, unit="images", description="training images behind the curvature", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Measure each seed's network, rewritten with one α."""
    for run in one_by_one(runs, context):
        model = network_of(run, context)
        rescale(model, run.alpha)
        images, targets = (tensor[: run.curvature_images] for tensor in images_of(run, context))
        _measure(run, context, Problem(model, nn.CrossEntropyLoss(), (images, targets)))


def _measure(run: Parameters, context: RunContext, problem: Problem) -> None:
    seed = int(torch.randint(2**31, (), generator=context.generator(run, "probes")))
    density = spectrum(Hessian(problem), vectors=run.start_vectors, steps=run.moments, seed=seed)
    context.record(
        run,
        kind="final",
        parameters=problem.size,
        training_loss=problem.loss(),
        trace=trace(problem).value,
        sharpness=sharpness(problem, seed=seed).estimate.value,
        norm=float(problem.vector().double().norm()),
    )
    record_nodes(context, run, density)
