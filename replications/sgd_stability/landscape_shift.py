"""The remark on Figure 7: in high dimension test and training landscape differ along flat directions.

From a minimum θ* of the training loss a network goes on, by the same SGD, on as many other images, whose loss is the
test loss, to a minimum of that one. How flat is the training loss on the way, and how much does it rise?
"""

from collections.abc import Sequence

import torch
from torch.func import functional_call, jvp

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.models import FullyConnected
from common.training import Batches, Descent, FullyConnectedEnsemble

from .shared.layered_hessians import LayeredHessians
from .shared.scalar_networks import draw_images, draw_networks, parameter_count

REMARK = "Wu 2025, remark on Fig. 7"
OURS = "our choice, D49"


class Parameters(ExperimentParameters):
    """Settings: two-class images, a fully connected network with one output, SGD to a given loss."""

    dataset: DatasetName = Field("mnist", description="images", source=OURS)
    examples: int = Field(
        200, ge=2, unit="images", description="n, behind the training loss, and as many others", source=OURS
    )
    width: int = Field(64, ge=1, unit="neurons", description="of each hidden layer", source=OURS)
    depth: int = Field(2, ge=1, unit="layers", description="hidden layers", source=OURS)
    learning_rate: float = Field(0.05, gt=0, unit="1", description="η", source=OURS)
    batch_size: int = Field(20, ge=1, unit="images", description="B", source=OURS)
    stopping_loss: float = Field(1e-3, gt=0, unit="1", description="at which every network stops, twice", source=OURS)
    longest: int = Field(40_000, ge=1, unit="steps", description="limit of each of the two trainings", source=OURS)
    often: int = Field(500, ge=1, unit="steps", description="between checkpoints", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one width to the same loss, then from there on the other images to that loss."""
    setting = runs[0]
    splits = [context.generator(run, "split") for run in runs]
    images = draw_images(context.data(setting.dataset), setting.dataset, 2 * setting.examples, splits)
    networks = draw_networks(setting.width, setting.depth, images, [context.generator(run, "init") for run in runs])
    state = context.restore()
    stage = 0 if state is None else int(state["stage"])
    minima = [] if state is None else list(state["minima"])
    for half in range(stage, 2):
        part = slice(half * setting.examples, (half + 1) * setting.examples)
        orders = [context.generator(run, ("batches", "probes")[half]) for run in runs]
        descent = Descent(
            networks,
            images.inputs[:, part],
            images.targets[:, part],
            learning_rates=setting.learning_rate,
            batches=Batches(setting.examples, setting.batch_size, orders),
            stopping_loss=setting.stopping_loss,
            check_every=20,
        )
        if state is not None and half == stage:
            descent.restore(state["descent"])
        taken = 0 if state is None or half > stage else int(state["taken"])
        while descent.running and taken < setting.longest:
            descent.advance(min(setting.often, setting.longest - taken))
            taken += min(setting.often, setting.longest - taken)
            context.progress(half + taken / setting.longest, 2)
            context.checkpoint({"descent": descent.state(), "taken": taken, "stage": half, "minima": minima})
        minima.append(networks.weights.clone())
    parameters = parameter_count(setting.width, setting.depth, images.basis.shape[1])
    for member, run in enumerate(runs):
        ends = [FullyConnectedEnsemble(networks.sizes, at).module(member).double() for at in minima]
        if not all(bool(weight.isfinite().all()) for end in ends for weight in end.parameters()):
            context.diverged(run, "the loss was not finite")
            continue
        inputs, targets = images.inputs[member].double(), images.targets[member].double()
        context.record(run, parameters=parameters, **way_between(ends[0], ends[1], inputs, targets))


def way_between(
    start: FullyConnected, end: FullyConnected, inputs: torch.Tensor, targets: torch.Tensor
) -> dict[str, float]:
    """What the training loss does on the way Δ from its minimum `start` to a minimum `end` of the test loss.

    Args:
        inputs: [2 n, features], those of the training loss first; `targets` [2 n, 1] as well.

    Returns:
        flat_share: of ‖Δ‖², in the null space of the Jacobian at `start` on the training images, where the training
            loss has no curvature.
        flat_share_at_random: the same for J_testᵀ ξ with random ξ, in expectation above and below the line.
        rise: of the training loss, over the fall of the test loss; 1 if one landscape is the other shifted.
        training_loss, test_loss: at `start`; moved_training_loss, moved_test_loss: at `end`.
    """
    count = len(inputs) // 2
    layered = LayeredHessians(start, inputs, targets)
    kernel = layered.kernel()
    own, across, other = kernel[:count, :count], kernel[:count, count:], kernel[count:, count:]
    at = {name: weight.detach() for name, weight in start.named_parameters()}
    way = {name: weight.detach() - at[name] for name, weight in end.named_parameters()}
    change = jvp(lambda weights: functional_call(start, weights, (inputs[:count],))[:, 0], (at,), (way,))[1]
    length = sum(float(part.square().sum()) for part in way.values())
    before = layered.errors.square()
    with torch.no_grad():
        after = (end(inputs) - targets).square()
    losses = {
        "training_loss": float(before[:count].mean()),
        "test_loss": float(before[count:].mean()),
        "moved_training_loss": float(after[:count].mean()),
        "moved_test_loss": float(after[count:].mean()),
    }
    rise = losses["moved_training_loss"] - losses["training_loss"]
    return losses | {
        "flat_share": 1 - float(change @ torch.linalg.solve(own, change)) / length,
        "flat_share_at_random": 1
        - float((across * torch.linalg.solve(own, across)).sum()) / float(other.diagonal().sum()),
        "rise": rise / (losses["test_loss"] - losses["moved_test_loss"]),
    }
