"""Figure 3: a minimum that gradient descent finds, and a bad one that is reached on purpose."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.hessian import Problem, sharpness, trace
from common.models import FullyConnected
from common.training import Descent, FullyConnectedEnsemble

from .shared.squared_error import squared_error

OURS = "our choice, deviation D45"
SHOWN = 241
"""Points of [−1, 1] at which functions are compared and drawn."""


class Parameters(ExperimentParameters):
    """Settings of the regression and of both ways to a minimum."""

    examples: int = Field(12, ge=2, description="training points, evenly spaced on [−1, 1]", source=OURS)
    planted: bool = Field(
        False, description="first fit false points between them, then the training points", source=OURS
    )
    planted_spread: float = Field(1.0, gt=0, description="standard deviation of the false values", source=OURS)
    hidden: tuple[int, ...] = Field((100, 100), description="units of the hidden layers (ReLU)", source=OURS)
    frequency: float = Field(3.0, gt=0, description="the target is sin(frequency · x)", source=OURS)
    learning_rate: float = Field(0.05, gt=0, description="of gradient descent on the training points", source=OURS)
    stopping_loss: float = Field(1e-4, gt=0, description="training loss at which it stops", source=OURS)
    steps: int = Field(60_000, ge=1, description="the most that gradient descent makes", source=OURS)
    planting_rate: float = Field(1e-3, gt=0, description="of ADAM while the false points are fitted", source=OURS)
    planting_steps: int = Field(3000, ge=1, description="of ADAM", source=OURS)


def target(run: Parameters, inputs: torch.Tensor) -> torch.Tensor:
    """The function to be learnt, [n, 1]."""
    return torch.sin(run.frequency * inputs)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """All seeds of an arm together: plant if asked for, descend on the training points, compare with the target."""
    setting = runs[0]
    generators = [context.generator(run, "init") for run in runs]
    ensemble = FullyConnectedEnsemble.drawn(
        (1, *setting.hidden, 1), generators, dtype=torch.float64, device=context.device
    )
    inputs = torch.linspace(-1, 1, setting.examples, dtype=torch.float64, device=context.device)[:, None]
    targets = target(setting, inputs)
    descent = Descent(
        ensemble, inputs, targets, learning_rates=setting.learning_rate, stopping_loss=setting.stopping_loss
    )
    state = context.restore()
    if state is None:
        if setting.planted:
            _plant(ensemble, runs, context, inputs, targets)
        state = {"descent": descent.state(), "done": 0}
    descent.restore(state["descent"])
    done = state["done"]
    while descent.running and done < setting.steps:
        descent.advance(500)
        done += 500
        context.progress(done, setting.steps)
        context.checkpoint({"descent": descent.state(), "done": done})
    for member, run in enumerate(runs):
        _record(run, context, ensemble.module(member), (inputs, targets), int(descent.steps[member]))


def _plant(
    ensemble: FullyConnectedEnsemble,
    runs: Sequence[Parameters],
    context: RunContext,
    inputs: torch.Tensor,
    targets: torch.Tensor,
) -> None:
    """Fit the training points together with false values half-way between them, by ADAM."""
    setting = runs[0]
    middles = (inputs[1:] + inputs[:-1]) / 2
    false = torch.stack(
        [
            setting.planted_spread
            * torch.randn(len(middles), 1, generator=context.generator(run, "split"), dtype=torch.float64)
            for run in runs
        ]
    ).to(context.device)
    both = torch.cat([inputs, middles]).expand(len(runs), -1, -1)
    values = torch.cat([targets.expand(len(runs), -1, -1), false], 1)
    ensemble.weights.grad = ensemble.gradients
    adam = torch.optim.Adam([ensemble.weights], lr=setting.planting_rate)
    for _ in range(setting.planting_steps):
        ensemble.losses_and_gradients(both, values)
        adam.step()
    ensemble.weights.grad = None


def _record(
    run: Parameters,
    context: RunContext,
    network: FullyConnected,
    training: tuple[torch.Tensor, torch.Tensor],
    steps: int,
) -> None:
    problem = Problem(network, squared_error, training)
    shown = torch.linspace(-1, 1, SHOWN, dtype=torch.float64, device=context.device)[:, None]
    with torch.no_grad():
        values = network(shown)
    wanted = target(run, shown)
    seed = context.stream_seed(run, "probes") % 2**31
    found: dict[str, Any] = {
        "training_loss": problem.loss(),
        "test_loss": float((values - wanted).square().mean()),
        "lambda_1": float(sharpness(problem, relative_error=0.01, seed=seed).estimate.value),
        "trace": float(trace(problem, seed=seed).value),
    }
    if not all(math.isfinite(value) for value in found.values()):
        context.diverged(run, "loss not finite")
        return
    context.record(run, kind="end", steps=steps, **found)
    for place, value in zip(shown.flatten().tolist(), values.flatten().tolist(), strict=True):
        context.record(run, kind="curve", x=place, y=value)
