"""The remark on Figure 7: in high dimension test and training landscape differ along flat directions.

From a minimum θ* of the training loss the nearest minimum of the test loss, both linearised there, lies at
Δ = −J_testᵀ (J_test J_testᵀ)⁻¹ e_test away: test means as many other images.
"""

from collections.abc import Sequence

import torch

from common.datasets import Dataset
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext
from common.training import Batches, Descent

from .shared.layered_hessians import LayeredHessians
from .shared.scalar_networks import Images, draw_images, draw_networks, parameter_count

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
    stopping_loss: float = Field(1e-3, gt=0, unit="1", description="at which every network stops", source=OURS)
    longest: int = Field(40_000, ge=1, unit="steps", description="limit of a training", source=OURS)
    often: int = Field(500, ge=1, unit="steps", description="between checkpoints", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one width to the same loss, then go to the nearest minimum of the test loss."""
    setting = runs[0]
    both = _both(runs, context, context.data(setting.dataset))
    count = setting.examples
    training = Images(both.inputs[:, :count], both.targets[:, :count], both.basis)
    networks = draw_networks(setting.width, setting.depth, both, [context.generator(run, "init") for run in runs])
    descent = Descent(
        networks,
        training.inputs,
        training.targets,
        learning_rates=setting.learning_rate,
        batches=Batches(count, setting.batch_size, [context.generator(run, "batches") for run in runs]),
        stopping_loss=setting.stopping_loss,
        check_every=20,
    )
    state = context.restore()
    if state is not None:
        descent.restore(state["descent"])
    taken = 0 if state is None else int(state["taken"])
    while descent.running and taken < setting.longest:
        descent.advance(min(setting.often, setting.longest - taken))
        taken += min(setting.often, setting.longest - taken)
        context.progress(taken, setting.longest)
        context.checkpoint({"descent": descent.state(), "taken": taken})
    parameters = parameter_count(setting.width, setting.depth, both.basis.shape[1])
    for member, run in enumerate(runs):
        network = networks.module(member).double()
        if not all(bool(weight.isfinite().all()) for weight in network.parameters()):
            context.diverged(run, "the loss was not finite")
            continue
        inputs, targets = both.inputs[member].double(), both.targets[member].double()
        context.record(run, parameters=parameters, **nearest_test_minimum(network, inputs, targets, count))


def _both(runs: Sequence[Parameters], context: RunContext, data: Dataset) -> Images:
    """n images to train on and n others after them, in coordinates of the span of all."""
    splits = [context.generator(run, "split") for run in runs]
    return draw_images(data, runs[0].dataset, 2 * runs[0].examples, splits)


def nearest_test_minimum(
    network: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor, count: int
) -> dict[str, float]:
    """What both losses do on the way Δ from a training minimum, whose images are the first `count`.

    Returns:
        flat_share: of ‖Δ‖², in the null space of J_train, where the linearised training loss does not change.
        flat_share_at_random: the same for a random direction J_testᵀ ξ, in expectation above and below the line.
        rise: ΔᵀG_trainΔ over ΔᵀG_testΔ, what the training loss rises by where the test loss falls to its minimum; 1 if
            the one landscape is the other shifted.
        rise_at_random: the same for J_testᵀ ξ.
        training_loss, test_loss: at θ*.
        moved_training_loss, moved_test_loss: at θ* + Δ, not linearised.
    """
    layered = LayeredHessians(network, inputs, targets)
    errors, kernel = layered.errors[:, 0], layered.kernel()
    own, across, other = kernel[:count, :count], kernel[:count, count:], kernel[count:, count:]
    step = torch.linalg.solve(other, errors[count:])
    change = across @ step
    within = torch.linalg.solve(own, across)
    values = {
        "flat_share": 1 - float(change @ within @ step) / float(step @ errors[count:]),
        "flat_share_at_random": 1 - float((across * within).sum()) / float(other.diagonal().sum()),
        "rise": float(change.square().mean()) / float(errors[count:].square().mean()),
        "rise_at_random": float(across.square().sum()) / count / (float(other.square().sum()) / len(other)),
        "training_loss": float(errors[:count].square().mean()),
        "test_loss": float(errors[count:].square().mean()),
    }
    outputs = network(inputs[count:])[:, 0]
    weights = list(network.parameters())
    way = torch.autograd.grad(outputs @ step, weights)
    with torch.no_grad():
        for weight, part in zip(weights, way, strict=True):
            weight -= part
        moved = (network(inputs) - targets).square()
    return values | {
        "moved_training_loss": float(moved[:count].mean()),
        "moved_test_loss": float(moved[count:].mean()),
    }
