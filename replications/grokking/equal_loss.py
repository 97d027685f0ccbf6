"""Is noise injection flatter at equal loss? Curvature of four arms along the whole descent of the loss."""

from collections.abc import Sequence

from common.experiments import Field, RunContext

from .shared.training import OURS, Training, TrainingParameters, split_table


class Parameters(TrainingParameters):
    """Settings of a run; the grid varies the arm, curvature is measured at the steps that are named."""

    measured: tuple[int, ...] = Field(
        (20, 50, 100, 150, 200, 300, 400, 600, 1000, 1800, 2800, 4000),
        min_length=2,
        unit="steps",
        description="when curvature is measured, closest where the loss falls fastest",
        source=OURS,
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm together and measure their curvature at the same steps."""
    training = Training(runs, context, [split_table(run, context.generator(run, "split")) for run in runs])
    training.curvatures = set(runs[0].measured)
    training.restore(context.restore())
    training.train()
