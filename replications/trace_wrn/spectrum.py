"""Figure 1: spectra of the wide residual network without and with weight decay, by Lanczos quadrature."""

from collections.abc import Sequence

import torch
from torch import nn

from common.datasets.splits import Split
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
        50_000, ge=2, unit="images", description="training images behind the spectrum", source=FIGURE_1
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
        error = _test_error(run, context, model, batches, test)
        few = slice(0, run.curvature_images)
        problem = Problem(model, nn.CrossEntropyLoss(), (batches.normalise(train.inputs[few]), train.targets[few]))
        seed = int(torch.randint(2**31, (), generator=context.generator(run, "probes")))
        density = quadrature(Hessian(problem), vectors=run.start_vectors, steps=run.moments, seed=seed)
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


def _test_error(run: Parameters, context: RunContext, model: nn.Module, batches: ImageBatches, test: Split) -> float:
    """The share of test images that are not recognised; progress is told in gradients of an image.

    A forward pass is a third of one in operations, a product with the Hessian of the quadrature is four.
    """
    products = run.start_vectors * run.moments * min(run.curvature_images, run.training_images)
    wrong = done = 0
    with torch.no_grad():
        for images, targets in zip(test.inputs.split(256), test.targets.split(256), strict=True):
            wrong += int((model(batches.normalise(images)).argmax(1) != targets).sum())
            done += len(targets)
            context.progress(done / 3, len(test.targets) / 3 + 4 * products)
    return wrong / len(test.targets)
