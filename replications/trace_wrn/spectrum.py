"""Figure 1: spectra of the wide residual network without and with weight decay, by Lanczos quadrature."""

from collections.abc import Sequence

import torch
from torch import nn

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem
from common.hessian import spectrum as quadrature
from common.training.images import ImageBatches

from .shared.convolutional import ConvolutionalParameters, images_of, network_of, weight_norm
from .shared.curvature import DensityParameters, record_nodes
from .shared.perceptron import PAPER
from .weight_decay_convolutional import NAME

FIGURE_1 = f"{PAPER}, Fig. 1"


class Parameters(ConvolutionalParameters, DensityParameters):
    """Settings: those of the trained network, and of the quadrature."""

    curvature_images: int = Field(
        50_000, ge=10, unit="images", description="training images behind the spectrum", source=FIGURE_1
    )
    start_vectors: int = Field(1, ge=1, description="random start vectors", source="deviation D3")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Nodes and weights of the spectral density of the unregularised loss, batch normalisation in evaluation mode."""
    for run in runs:
        train, test = images_of(run, context, NAME)
        model = network_of(run, context.data(run.dataset).classes).to(context.device)
        kept = context.artifact(run, "network", "network")
        model.load_state_dict({name: kept[name].to(value.dtype) for name, value in model.state_dict().items()})
        model.eval()
        batches = ImageBatches(train.inputs, train.targets, augment=False)
        few = slice(0, run.curvature_images)
        problem = Problem(model, nn.CrossEntropyLoss(), (batches.normalise(train.inputs[few]), train.targets[few]))
        seed = int(torch.randint(2**31, (), generator=context.generator(run, "probes")))
        density = quadrature(Hessian(problem), vectors=run.start_vectors, steps=run.moments, seed=seed)
        with torch.no_grad():
            parts = zip(test.inputs.split(256), test.targets.split(256), strict=True)
            wrong = sum(int((model(batches.normalise(x)).argmax(1) != y).sum()) for x, y in parts)
        error = wrong / len(test.targets)
        context.record(
            run,
            kind="final",
            parameters=problem.size,
            norm=weight_norm(model),
            test_error=error,
            largest=float(density.nodes.max()),
            smallest=float(density.nodes.min()),
        )
        record_nodes(context, run, density)
