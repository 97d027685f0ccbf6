"""What the frozen lower layers make of the data: computed once, kept, and read by every experiment that fine-tunes."""

import importlib
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from common.datasets.splits import Split
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext

from .shared.backbones import BACKBONES, Files
from .shared.graph_network import packed_graphs
from .shared.linear_classifier import linear_accuracy
from .shared.text_tensors import as_tensor

CHUNK = 50
"""Examples that pass the lower layers at once."""
MNIST = 0.1307, 0.3081
"""Mean and standard deviation of MNIST's pixels, in 0…1."""

Examples = tuple[Tensor, Tensor]


class Parameters(ExperimentParameters):
    """Which network, which data, and where the network is cut."""

    system: Literal["image", "text", "digits", "molecules"] = Field(
        "image", description="what is fine-tuned", source="Zhang 2024, Figs. 1 to 3; deviation D1"
    )
    dataset: DatasetName = Field("cifar10", description="data", source="deviation D1")
    weights: DatasetName = Field(
        "mobilenet_v2",
        description="pretrained weights; the data once more where training starts from random weights",
        source="deviation D1",
    )
    pool: int = Field(
        600,
        ge=10,
        unit="examples",
        description="from which each seed draws its training and validation set",
        source="deviation D2",
    )
    test_examples: int = Field(600, ge=10, unit="examples", description="of the test split", source="deviation D2")
    size: int = Field(
        64, ge=1, unit="pixels or tokens", description="side of an image, length of a text", source="deviation D1"
    )
    stages_above: int = Field(
        3, ge=1, description="stages of the network above the cut; those below are frozen", source="deviation D3"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Keep the features of all examples and the weights above the cut; record how well a linear classifier does."""
    for number, run in enumerate(runs):
        train, test, upper = _SYSTEMS[run.system](run, context)
        features = {"pool": train[0], "pool_labels": train[1], "test": test[0], "test_labels": test[1]}
        source = {"dataset": as_tensor(run.dataset), "weights": as_tensor(run.weights)}
        context.save(run, "features", features | source)
        context.save(run, "upper", upper)
        context.record(run, classes=int(train[1].max()) + 1, probe_accuracy=linear_accuracy(upper, train, test))
        context.progress(number + 1, len(runs))


def _pretrained(run: Parameters, context: RunContext) -> tuple[Examples, Examples, dict[str, Tensor]]:
    """Features at the cut, in half precision, and the weights above it as `<weights>.<stage>.<name>`."""
    # Named at run time: how bytes are fetched is no part of what a run computes from them, and the registry pins them.
    files: Files = importlib.import_module("common.datasets").files(run.weights)
    backbone = BACKBONES[run.weights]
    network = backbone.fill(backbone.build(), files).eval()
    cut = max(len(network) - run.stages_above, 0)
    lower = network[:cut].to(context.device)
    found = []
    for split in _drawn(run, context):
        read = backbone.inputs(split.inputs, files, run.size)
        with torch.inference_mode():
            parts = [lower(part.to(context.device)).cpu() for part in read.split(CHUNK)]
        features = torch.cat(parts)
        found.append((features.half() if features.is_floating_point() else features, split.targets))
    kept = {name: tensor for name, tensor in network.state_dict().items() if int(name.partition(".")[0]) >= cut}
    return found[0], found[1], {f"{run.weights}.{name}": tensor for name, tensor in kept.items()}


def _digits(run: Parameters, context: RunContext) -> tuple[Examples, Examples, dict[str, Tensor]]:
    """Standardised pixels [n, 784]; nothing is pretrained."""
    pool, test = ((split.standardised(*MNIST).flatten(1), split.targets) for split in _drawn(run, context))
    return pool, test, {}


def _molecules(run: Parameters, context: RunContext) -> tuple[Examples, Examples, dict[str, Tensor]]:
    """Packed graphs (`packed_graphs`); nothing is pretrained. The test examples are those outside the pool."""
    features, labels = packed_graphs(run.dataset)
    order = torch.randperm(len(labels), generator=context.generator(run, "split"))
    pool, test = order[: run.pool], order[run.pool : run.pool + run.test_examples]
    return (features[pool], labels[pool]), (features[test], labels[test]), {}


def _drawn(run: Parameters, context: RunContext) -> tuple[Split, Split]:
    """The pool, from the training split, and the test examples, from the test split."""
    data, seed = context.data(run.dataset), context.stream_seed(run, "split")
    return data.train.subset(run.pool, seed), data.test.subset(run.test_examples, seed)


_SYSTEMS = {"image": _pretrained, "text": _pretrained, "digits": _digits, "molecules": _molecules}
