"""The curvature where gradient descent ended."""

from collections.abc import Sequence

from common.experiments import ExperimentParameters, Field, RunContext


class Parameters(ExperimentParameters):
    """Where to measure."""

    learning_rate: float = Field(0.1, gt=0, description="of the run that is measured", source="Fig. 1")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Record the squared norm of the final weights."""
    for run in runs:
        weights = context.artifact(run, "start", "weights")["w"]
        context.record(run, squared_norm=weights.square().sum().item())
