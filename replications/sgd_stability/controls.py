"""Controls of the pipeline: rescaled neurons plant sharpness; the same arm drawn again plants none."""

from collections.abc import Sequence

from common.errors import UserError
from common.experiments import Field, RunContext
from common.models import FullyConnected, rescale
from common.training import STOPPED, Batches, Descent

from .shared.image_regression import RegressionParameters, accuracy, first_images, networks, test_images
from .shared.layered_hessians import LayeredHessians, largest_eigenvalue, non_uniformity

ROUND = 500


class Parameters(RegressionParameters):
    """Settings of a run; the grid varies the arm."""

    learning_rate: float = Field(0.5, gt=0, description="η", source="as in Fig. 16")
    batch_size: int = Field(10, ge=1, unit="images", description="B", source="as in Fig. 16")
    rescaling: float = Field(
        1.0,
        gt=0,
        description="factor on the first layer of the solution, divided out of the second",
        source="our control",
    )
    own_streams: bool = Field(
        False, description="whether weights and batches are drawn anew for this arm", source="our control"
    )
    longest: int = Field(
        20_000, ge=1, unit="steps", description="after which a run ends unstopped", source="our choice"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one arm, rescale, measure."""
    setting = runs[0]
    data = first_images(setting, context)
    streams = [[context.generator(run, _stream(run, name)) for run in runs] for name in ("init", "batches")]
    ensemble = networks(setting, streams[0], data[0].shape[1], context.device)
    order = Batches(setting.training_images, setting.batch_size, streams[1], order="independent")
    descent = Descent(
        ensemble, *data, learning_rates=setting.learning_rate, batches=order, stopping_loss=setting.stopping_loss
    )
    if (state := context.restore()) is not None:
        descent.restore(state)
    while descent.running and int(descent.steps.max()) < setting.longest:
        descent.advance(min(ROUND, setting.longest - int(descent.steps.max())))
        context.checkpoint(descent.state())
    test = test_images(setting, context)
    for member, run in enumerate(runs):
        model = ensemble.module(member)
        if not isinstance(model, FullyConnected):
            raise UserError(f"{context.name}: only fully connected networks can be rescaled, not {run.network}.")
        rescale(model, run.rescaling)
        layered, source = LayeredHessians(model, *data), context.generator(run, "probes")
        context.record(
            run,
            sharpness=largest_eigenvalue(layered, source, 0.01).value,
            non_uniformity=non_uniformity(layered, source, 0.01).value,
            test_accuracy=accuracy(model, test),
            loss=float(descent.losses[member]),
            stopped=bool(descent.status[member] == STOPPED),
        )


def _stream(run: Parameters, name: str) -> str:
    return f"own_{name}" if run.own_streams else name
