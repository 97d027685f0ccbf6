"""The perceptron that `weight_decay_paradox` trained and kept, and its images, for what is measured on it elsewhere."""

import torch

from common.experiments import RunContext
from common.experiments.seeds import stream_seed
from common.models.mnist_perceptron import MnistPerceptron

from .perceptron import PerceptronParameters, normalised


def network_of(run: PerceptronParameters, context: RunContext, at: str = "trained") -> MnistPerceptron:
    """The network of the needed run `network`, with "initial" or "trained" weights, in evaluation mode."""
    weights = context.artifact(run, "network", "weights")[at]
    model = MnistPerceptron().to(weights)
    torch.nn.utils.vector_to_parameters(weights, model.parameters())
    return model.eval()


def images_of(run: PerceptronParameters, context: RunContext) -> tuple[torch.Tensor, torch.Tensor]:
    """The images [n, 784] and targets [n] that the network of this seed was trained on."""
    seed = stream_seed("weight_decay_paradox", "split", run.seed, {})
    subset = context.data(run.dataset).train.subset(run.training_images, seed=seed).to(context.device)
    return normalised(subset.inputs.flatten(1)), subset.targets
