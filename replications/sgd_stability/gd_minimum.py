"""The minima that SGD shall leave: gradient descent on digit parity, within the edge of stability or at it."""

from collections.abc import Sequence

from common.experiments import Field, RunContext
from common.training import STOPPED, Descent, FullyConnectedEnsemble

from .shared.image_span import ImageSpan
from .shared.layered_hessians import LayeredHessians, largest_eigenvalue
from .shared.linearised_sgd import LinearisedSGD
from .shared.parity import LECTURE, ParityParameters, parity_accuracy, parity_examples

ROUND = 1000


class Parameters(ParityParameters):
    """Settings of a run."""

    finding_rate: float = Field(
        0.06, gt=0, description="η of full-batch gradient descent that finds the minimum", source="our choice, D6"
    )
    finding_loss: float = Field(
        1e-7, gt=0, description="mean squared error at which η changes", source="our choice, deviation D6"
    )
    learning_rate: float = Field(
        0.05,
        gt=0,
        description="η of full-batch gradient descent from there on, and of SGD afterwards",
        source=f"{LECTURE}, Fig. 19 (one rate for both); value ours, deviation D6",
    )
    stopping_loss: float = Field(
        1e-8, gt=0, description="mean squared error at which it ends", source="our choice, deviation D6"
    )
    longest: int = Field(
        50_000, ge=1, unit="steps", description="of either learning rate, after which it ends", source="our choice"
    )
    batch_size: int = Field(
        16, ge=1, unit="images", description="B of the growth of the second moment there", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds with one learning rate, then with the other; keep their weights."""
    setting = runs[0]
    images, targets = parity_examples(setting, context)
    generators = [context.generator(run, "init") for run in runs]
    span = ImageSpan(FullyConnectedEnsemble.drawn(setting.sizes, generators, device=context.device), images)
    phases = ((setting.finding_rate, setting.finding_loss), (setting.learning_rate, setting.stopping_loss))
    state, before = context.restore(), [0] * len(runs)
    for number, (rate, loss) in enumerate(phases):
        if state is not None and number < state["phase"]:
            continue
        descent = Descent(span.ensemble, span.inputs, targets, learning_rates=rate, stopping_loss=loss)
        if state is not None:
            descent.restore(state["descent"])
            before, state = list(state["before"]), None
        while descent.running and int(descent.steps.max()) < setting.longest:
            descent.advance(min(ROUND, setting.longest - int(descent.steps.max())))
            done = number * setting.longest + int(descent.steps.max())
            context.progress(done, 2 * setting.longest, f"loss {float(descent.losses.max()):.1e}")
            context.checkpoint({"phase": number, "before": before, "descent": descent.state()})
        if number == 0:
            before = descent.steps.tolist()
    for member, run in enumerate(runs):
        layered = LayeredHessians(span.ensemble.module(member), span.inputs, targets)  # type: ignore[arg-type]
        found = largest_eigenvalue(layered, context.generator(run, "probes"), 1e-3)
        model = span.module(member)
        context.save(run, "minimum", {"weights": span.on_images([member]).weights[0]})
        context.record(
            run,
            steps_to_find=before[member],
            steps=int(descent.steps[member]),
            loss=float(descent.losses[member]),
            sharpness=found.value,
            sharpness_error=found.error,
            radius=LinearisedSGD(layered.kernel().double(), setting.learning_rate, setting.batch_size).radius(),
            test_accuracy=parity_accuracy(model, run, context),  # type: ignore[arg-type]
            stopped=bool(descent.status[member] == STOPPED),
        )
