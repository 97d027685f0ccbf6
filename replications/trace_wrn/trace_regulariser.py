"""Tables 7 to 9: L + η Tr G with one probe and weight decay γ, against η = 0, and with the Hessian in place of G."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Problem, trace
from common.optim.trace_penalty import TracePenalty
from common.training.residual import Objective, cross_entropy

from .shared.convolutional import (
    ConvolutionalParameters,
    images_of,
    initialised,
    performance,
    train_through,
    weight_norm,
)
from .shared.perceptron import PAPER

EQUATION_13 = f"{PAPER}, eq. 13"
CHANCE_ERROR = 1.0


class Parameters(ConvolutionalParameters):
    """Settings: those of the training, and of the penalty; the grid varies the arm."""

    strength: float = Field(0.0, ge=0, description="η, factor of the trace", source=f"{PAPER}, Tables 7 and 8")
    of: Literal["ggn", "hessian"] = Field("ggn", description="matrix whose trace is added", source=EQUATION_13)
    probe: Literal["outputs", "weights"] = Field(
        "outputs", description="random signs of outputs or of weights (the document's)", source="deviation D10"
    )
    penalty_images: int | None = Field(
        None,
        ge=1,
        unit="images",
        description="sub-batch of the penalty, the whole batch if none",
        source="section 6: open",
    )
    curvature_images: int = Field(
        2_000, ge=2, unit="images", description="training images behind Tr G at the end", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train one network with one arm's penalty; losses, Tr G and the norm at the end."""
    for run in runs:
        train, test = images_of(run, context, "trace_regulariser")
        model = initialised(run, context, context.data(run.dataset).classes)
        source = context.generator(run, "probes")
        objective: Objective = _Penalised(run, source) if run.strength else cross_entropy
        training = train_through(run, context, model, train, source=source, objective=objective)
        values = {"training_loss": 1e6, "training_error": CHANCE_ERROR, "test_loss": 1e6, "test_error": CHANCE_ERROR}
        trace_ggn = 1e9
        if training.lost:
            context.log(f"the training loss was not finite in epoch {training.epoch}")
        else:
            values = performance(training, train, test)
            model.eval()  # batch normalisation by its running statistics
            few = slice(0, run.curvature_images)
            data = training.batches.normalise(train.inputs[few]), train.targets[few]
            trace_ggn = trace(Problem(model, nn.CrossEntropyLoss(), data), "ggn", relative_error=0.02).value
        context.record(
            run,
            kind="final",
            epoch=training.epoch,
            lost=training.lost,
            trace_ggn=trace_ggn,
            norm=weight_norm(model) if not training.lost else 0.0,
            **values,
        )


class _Penalised:
    """The objective L + η Tr of a mini-batch; γ is the optimiser's."""

    def __init__(self, run: Parameters, source: torch.Generator) -> None:
        self.strength, self.source = run.strength, source
        self.penalty = TracePenalty(run.of, run.probe, examples=run.penalty_images)

    def __call__(self, model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss, estimate = self.penalty(model, inputs, targets, self.source)
        return loss + self.strength * estimate
