"""Networks and training images of the comparison of batch sizes, the same in every experiment that looks at them."""

from typing import Literal

import torch

from common.datasets import Dataset, Split
from common.experiments import DatasetName, ExperimentParameters, Field
from common.experiments.seeds import stream_seed

from .classifiers import CLASSES, Architecture

KESKAR = "Keskar et al. 2017"
OWNER = "large_batch"
"""The experiment that trains the networks; its streams give all experiments the same images and labels."""


class ClassifierParameters(ExperimentParameters):
    """Settings of a network and of what it is trained on."""

    dataset: DatasetName = Field("mnist", description="images", source=f"{KESKAR}, Table 1 (F1; C1: CIFAR-10)")
    training_images: int = Field(60_000, ge=50, unit="images", description="n, size of the training set", source=KESKAR)
    architecture: Architecture = Field("fully_connected", description="kind of network", source=f"{KESKAR}, Table 1")
    hidden: tuple[int, ...] = Field((512,) * 5, description="units of the hidden layers", source="deviation D40")
    labels: Literal["true", "shuffled"] = Field("true", description="labels of the training set", source="control")


def training_split(run: ClassifierParameters, data: Dataset) -> Split:
    """The training images of a run's seed, with random labels if it asks for them."""
    split = data.train.subset(run.training_images, seed=stream_seed(OWNER, "split", run.seed, {}))
    if run.labels == "shuffled":
        source = torch.Generator().manual_seed(stream_seed(OWNER, "labels", run.seed, {}))
        drawn = torch.randint(0, CLASSES, (len(split),), generator=source)
        split = Split(f"{split.name}, random labels", split.inputs, drawn)
    return split


def first(split: Split, count: int) -> Split:
    """The first `count` images, all if there are fewer."""
    return Split(split.name, split.inputs[:count], split.targets[:count])
