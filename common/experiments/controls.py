"""Arms of the experiments that test a pipeline: shuffled labels, and one arm drawn twice."""

from typing import Literal

import torch

from common.experiments.parameters import ExperimentParameters, Field


class ControlArm(ExperimentParameters):
    """What an arm changes; as it is by default, nothing."""

    labels: Literal["true", "shuffled"] = Field(
        "true", description="training labels: as they are, or permuted among the examples", source="our control"
    )
    own_streams: bool = Field(
        False, description="whether data, weights and order are drawn anew for this arm", source="our control"
    )


def shuffled(targets: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The targets [n] in a random order, on their device; `generator` is on the CPU."""
    return targets[torch.randperm(len(targets), generator=generator).to(targets.device)]
