"""Figure 18: how gradient noise aligns with curvature along training and with growing width; its CIFAR-10 twin."""

from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.experiments.parameters import DatasetName
from common.training import Batches, Descent

from .shared.scalar_networks import draw_images, draw_networks, member_hessians, parameter_count

FIGURE = "Wu 2025, Fig. 18; not stated"
OURS = "our choice, D27"


class Parameters(ExperimentParameters):
    """Settings: two-class images, a fully connected network with one output, SGD, and when it is measured."""

    dataset: DatasetName = Field("mnist", description="images", source="Wu 2025, Fig. 18 and its CIFAR-10 twin")
    examples: int = Field(500, ge=2, unit="images", description="n", source=OURS)
    width: int = Field(64, ge=1, unit="neurons", description="of each hidden layer", source=FIGURE)
    depth: int = Field(2, ge=1, description="hidden layers", source=FIGURE)
    learning_rate: float = Field(0.05, gt=0, description="η", source=OURS)
    batch_size: int = Field(20, ge=1, unit="images", description="B", source=OURS)
    measured: tuple[int, ...] = Field(
        (0, 30, 100, 300, 1000, 3000), min_length=2, unit="steps", description="when it is measured", source=OURS
    )
    loss_reached: float = Field(0.04, gt=0, description="loss at the end that the claims ask for", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one width together; measure on the way."""
    setting = runs[0]
    splits = [context.generator(run, "split") for run in runs]
    images = draw_images(context.data(setting.dataset), setting.dataset, setting.examples, splits)
    networks = draw_networks(setting.width, setting.depth, images, [context.generator(run, "init") for run in runs])
    batches = Batches(setting.examples, setting.batch_size, [context.generator(run, "batches") for run in runs])
    data = images.inputs, images.targets
    descent = Descent(networks, *data, learning_rates=setting.learning_rate, batches=batches, check_every=1000)
    count = parameter_count(setting.width, setting.depth, images.basis.shape[1])
    state = context.restore()
    if state is not None:
        descent.restore(state["descent"])
    done = -1 if state is None else int(state["done"])
    for step in [step for step in setting.measured if step > done]:
        descent.advance(step - max(done, 0))
        done = step
        for run, taken, layered in zip(runs, descent.steps.tolist(), member_hessians(networks, images), strict=True):
            if taken < step:
                context.diverged(run, f"the loss was not finite before step {step}")
                continue
            ntk = layered.ntk()
            found = ntk.alignment()
            context.record(
                run,
                step=step,
                loss=found.loss,
                parameters=count,
                alpha=found.alpha,
                beta=found.beta,
                mu=found.mu,
                gamma=found.gamma,
                frobenius=found.curvature_norm,
                uneven_errors=_unevenness(layered.errors.square()),
                uneven_gradients=_unevenness(ntk.gram.square().sum(1)),
                uneven_gradient_norms=_unevenness(ntk.gram.norm(dim=1)),
            )
        context.progress(step, setting.measured[-1])
        context.checkpoint({"descent": descent.state(), "done": done})


def _unevenness(values: torch.Tensor) -> float:
    """Standard deviation over mean: of e_i², of ‖g_i‖_G, in proportion to the norm of a row of K, and of its square."""
    return float(values.std() / values.mean())
