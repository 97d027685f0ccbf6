"""Figure 2: on mini-batches the traces of Hessian and Gauss–Newton matrix are right, those of their squares not."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.experiments.one_by_one import one_by_one
from common.hessian import GGN, Hessian, Problem, eigenpairs, trace

from .shared.curvature import squared_norm
from .shared.perceptron import PAPER, PerceptronParameters
from .shared.trained_perceptron import images_of, network_of

SINGLES = 4
"""Times as many draws of single images: their squares have heavy tails."""


class Parameters(PerceptronParameters):
    """Settings: those of the trained network, and the batches."""

    at: Literal["initial", "trained"] = Field(
        "trained", description="weights that are measured", source=f"{PAPER}, Fig. 2"
    )
    full_images: int = Field(
        60_000, ge=200, unit="images", description="training images that stand for the full data", source="our choice"
    )
    sizes: tuple[int, ...] = Field(
        (1, 32, 128), unit="images", description="sizes of batches; 1 gives the variance", source=f"{PAPER}, Fig. 2"
    )
    batches: int = Field(100, ge=8, description="random batches of each size", source="our choice")
    outliers: int = Field(10, ge=1, description="extreme eigenvalues that are computed one by one", source="our choice")
    norm_probes: int = Field(
        8, ge=2, description="probes of what else is in the trace of a square", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Measure each seed's network on all images and on random batches of each size, drawn without replacement."""
    for run in one_by_one(runs, context):
        model = network_of(run, context, run.at)
        images, targets = (tensor[: run.full_images] for tensor in images_of(run, context))
        source = context.generator(run, "probes")
        _record(run, context, Problem(model, nn.CrossEntropyLoss(), (images, targets)), 0, source)
        for size in run.sizes:
            for batch in range(run.batches * (SINGLES if size == 1 else 1)):
                chosen = torch.randperm(len(targets), generator=source)[:size].to(targets.device)
                problem = Problem(model, nn.CrossEntropyLoss(), (images[chosen], targets[chosen]))
                _record(run, context, problem, batch, source)


def _record(run: Parameters, context: RunContext, problem: Problem, batch: int, source: torch.Generator) -> None:
    """Tr H, Tr G, Tr H² and Tr G² of the mean loss over the problem's images."""
    of_hessian = trace(problem).value
    of_ggn = of_hessian if problem.structure.piecewise_linear else trace(problem, "ggn").value
    values = {"trace_hessian": of_hessian, "trace_ggn": of_ggn}
    for name, matrix in (("hessian", Hessian(problem)), ("ggn", GGN(problem))):
        seed = int(torch.randint(2**31, (), generator=source))
        pairs = eigenpairs(matrix, run.outliers, relative_error=0.05, products=60, seed=seed)
        values[f"squared_{name}"] = squared_norm(matrix, pairs, run.norm_probes, source).value
    context.record(run, size=problem.count, batch=batch, full=problem.count == run.full_images, **values)
