"""Fig. 1: the loss under noise in the weights beside half its variance times the trace of the Hessian.

The talk draws both over σ and gives no number. The σ of the text encoder and of the graph network are those of its
authors' code; for the perceptron there is none, and 0.025 is ours, as are the 10 % within which the rules hold the two
curves (D5).
"""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Problem

from .shared.fine_tuning import TuningParameters, tuning_of
from .shared.methods import METHODS
from .shared.perturbed_loss import perturbed_loss, perturbing_work
from .shared.systems import Name
from .shared.trained_members import trained_members

CODE = "code of the talk's authors"


class Parameters(TuningParameters):
    """Settings of a run; the grid varies the system, and whether it is smooth."""

    system: Name = Field("digits", description="what is trained", source="Zhang 2024, Fig. 1; deviation D1")
    sigma: float = Field(
        0.02,
        gt=0,
        description="σ in the middle of what is drawn: the authors', ours on digits",
        source=f"{CODE}; deviation D5",
    )
    factors: tuple[float, ...] = Field(
        (0.125, 0.25, 0.5, 1.0, 2.0), description="multiples of that σ at which noise is added", source="our choice"
    )
    draws: int = Field(20, ge=4, description="directions of the noise, each taken both ways", source=f"{CODE}: 20")
    measured_examples: int = Field(
        100,
        ge=4,
        unit="examples",
        description="of the training examples, on which all is measured",
        source="deviation D5",
    )
    double: bool = Field(True, description="whether it is measured in float64", source="our choice")
    trace_error: float = Field(0.01, gt=0, lt=1, description="wanted relative error of Tr H", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one system together and measure each at the end."""
    tuning = tuning_of(runs, context, METHODS["sgd"](1.0))
    measuring = runs[0].measured_examples * perturbing_work(len(runs[0].factors), runs[0].draws)
    for run, member, performance in trained_members(runs, context, tuning, measuring):
        model = member.model
        inputs, labels = (tensor[: run.measured_examples] for tensor in member.train)
        if run.double:
            model, inputs = model.double(), inputs.to(torch.float64 if inputs.is_floating_point() else inputs.dtype)
        problem = Problem(model, nn.CrossEntropyLoss(), (inputs, labels))
        sigmas = [run.sigma * factor for factor in run.factors]
        seed = context.stream_seed(run, "probes")
        rows = perturbed_loss(problem, sigmas, draws=run.draws, trace_error=run.trace_error, seed=seed)
        for factor, row in zip(run.factors, rows, strict=True):
            context.record(run, factor=factor, parameters=problem.size, **row, **tuning.source, **performance)
