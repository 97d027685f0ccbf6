"""The minima that SGD shall leave: gradient descent on digit parity, one output, run to the edge of stability."""

from collections.abc import Sequence

from common.experiments import Field, RunContext
from common.training import STOPPED, Descent, FullyConnectedEnsemble

from .shared.layered_hessians import LayeredHessians, largest_eigenvalue
from .shared.parity import ParityParameters, parity_accuracy, parity_examples

ROUND = 1000


class Parameters(ParityParameters):
    """Settings of a run."""

    learning_rate: float = Field(
        0.1, gt=0, description="η of full-batch gradient descent", source="our choice, deviation D6"
    )
    stopping_loss: float = Field(
        1e-6, gt=0, description="mean squared error at which it ends", source="our choice, deviation D6"
    )
    longest: int = Field(
        50_000, ge=1, unit="steps", description="after which a run ends unstopped", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds; keep their weights."""
    setting = runs[0]
    data = parity_examples(setting, context)
    generators = [context.generator(run, "init") for run in runs]
    ensemble = FullyConnectedEnsemble.drawn(setting.sizes, generators, device=context.device)
    descent = Descent(ensemble, *data, learning_rates=setting.learning_rate, stopping_loss=setting.stopping_loss)
    if (state := context.restore()) is not None:
        descent.restore(state)
    while descent.running and int(descent.steps.max()) < setting.longest:
        descent.advance(min(ROUND, setting.longest - int(descent.steps.max())))
        context.progress(int(descent.steps.max()), setting.longest, f"loss {float(descent.losses.max()):.1e}")
        context.checkpoint(descent.state())
    for member, run in enumerate(runs):
        model = ensemble.module(member)
        found = largest_eigenvalue(LayeredHessians(model, *data), context.generator(run, "probes"), 1e-3)
        context.save(run, "minimum", {"weights": ensemble.weights[member]})
        context.record(
            run,
            steps=int(descent.steps[member]),
            loss=float(descent.losses[member]),
            sharpness=found.value,
            sharpness_error=found.error,
            test_accuracy=parity_accuracy(model, run, context),
            stopped=bool(descent.status[member] == STOPPED),
        )
