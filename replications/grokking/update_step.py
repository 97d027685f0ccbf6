"""The talk's picture of one update step: gradients on both sides of the weights, on a loss with a sharp wall."""

from collections.abc import Sequence
from typing import Literal

import torch

from common.experiments import ExperimentParameters, Field, RunContext
from common.optim import GaussianNoise, GradientRule, NoiseStability, PlainGradient, WeightPerturbation

from .shared.sharp_wall import loss

OURS = "our choice"


class Parameters(ExperimentParameters):
    """Settings of the illustration; the grid varies the rule."""

    rule: Literal["plain", "nso", "wp_sgd"] = Field("nso", description="which gradient is drawn", source=OURS)
    start: tuple[float, float] = Field((1.1, 0.9), description="the weights W", source=OURS)
    noise_scale: float = Field(0.35, gt=0, description="σ of the perturbation U", source=OURS)
    draws: int = Field(2_000, ge=2, description="steps drawn to show their spread", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """The gradient of one drawn step with its parts, and mean and spread over many draws."""
    for run in runs:
        start = torch.tensor(run.start, dtype=torch.float64)
        rows = torch.nn.Parameter(start.expand(run.draws, 2).clone())
        noise = GaussianNoise([rows], scale=run.noise_scale, generators=context.generator(run, "probes"))
        shown = noise.draw()[0][0]
        gradients = _gradients(run, rows, noise)
        mean, spread = gradients.mean(0), gradients.var(0).sum().sqrt()
        points = torch.stack([start, start + shown, start - shown]).requires_grad_()
        (slopes,) = torch.autograd.grad(loss(points).sum(), points)
        context.record(
            run,
            start_x=run.start[0],
            start_y=run.start[1],
            mean_x=float(mean[0]),
            mean_y=float(mean[1]),
            spread=float(spread),
            shown_x=float(shown[0]),
            shown_y=float(shown[1]),
            **{
                f"{name}_{axis}": float(slopes[place, number])
                for place, name in enumerate(("at", "plus", "minus"))
                for number, axis in enumerate("xy")
            },
        )


def _gradients(run: Parameters, rows: torch.nn.Parameter, noise: GaussianNoise) -> torch.Tensor:
    """Independent gradients [draws, 2] by the rule of the run, one for each row of `rows`."""
    optimiser = torch.optim.SGD([rows], lr=1.0)
    rule: GradientRule
    if run.rule == "plain":
        rule = PlainGradient(optimiser)
    elif run.rule == "nso":
        rule = NoiseStability(optimiser, noise)
    else:
        rule = WeightPerturbation(optimiser, noise, draws=2)
    rule.fill(lambda: loss(rows).sum())
    if rows.grad is None:
        raise RuntimeError(f"the rule {run.rule} set no gradient.")
    return rows.grad
