"""What Tables 1 to 9 say by themselves: no training, the printed numbers and the networks' initial weights alone."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from common.experiments import ExperimentParameters, Field, RunContext
from common.models.all_convolutional import AllConvolutional
from common.models.initialisation import initialise_uniform
from common.models.mnist_perceptron import MnistPerceptron
from common.models.preactivation_resnet import PreactivationResNet
from common.models.wide_resnet import WideResNet

from .shared.perceptron import PAPER
from .shared.published import TABLE_7, TABLE_8, TABLES


class Parameters(ExperimentParameters):
    """Settings: which table."""

    table: Literal["mlp", "cnn", "preresnet", "wrn", "table7", "table8"] = Field(
        "mlp", description="network of Tables 1, 2, 4 and 5, or the table of the regulariser", source=PAPER
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Record the printed rows, with the parameter count and the norm of freshly drawn weights of each network."""
    for run in runs:
        if run.table in TABLES:
            table = TABLES[run.table]
            model = _initialised(run.table, context.generator(run, "init"))
            parameters = list(model.parameters())
            squares = sum(float(p.detach().double().square().sum()) for p in parameters)
            for row in table.rows:
                context.record(
                    run,
                    printed_parameters=table.parameters,
                    parameters=sum(p.numel() for p in parameters),
                    initial_norm=squares**0.5,
                    **vars(row),
                )
        elif run.table == "table7":
            for arm, (mean, spread) in TABLE_7.items():
                context.record(run, arm=arm, validation_accuracy=mean, spread=spread)
        else:
            for arm, (training, validation) in TABLE_8.items():
                context.record(run, arm=arm, training_accuracy=training, validation_accuracy=validation)


def _initialised(network: str, source: torch.Generator) -> nn.Module:
    """A network of the tables with initial weights."""
    if network == "mlp":
        perceptron = MnistPerceptron()
        initialise_uniform(perceptron, source)
        return perceptron
    makers = {"cnn": AllConvolutional, "preresnet": PreactivationResNet, "wrn": WideResNet}
    model = makers[network]()
    model.initialise(source)
    return model  # type: ignore[no-any-return]
