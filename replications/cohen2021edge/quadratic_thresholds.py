"""Section 2: the largest curvature at which each rule is stable on a quadratic, computed and tried."""

import math
from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.setting import PAPER, Rule, stability_factor


class Parameters(ExperimentParameters):
    """Settings of a run; the grid varies the rule and the largest curvature."""

    rule: Rule = Field("gradient_descent", description="what takes the steps", source=f"{PAPER}, Section 2")
    momentum: float = Field(0.0, ge=0, lt=1, description="β", source=f"{PAPER}, Section 2")
    curvature_ratio: float = Field(1.0, gt=0, description="λ₁ over the rule's threshold", source="our choice")
    dimensions: int = Field(20, ge=2, description="of the quadratic", source="our choice")
    steps: int = Field(2000, ge=10, unit="steps", description="of the rule, at η = 1", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Let the rule run on a random quadratic with the given λ₁, and find its threshold by bisection."""
    for run in runs:
        factor = stability_factor(run.rule, run.momentum)
        source = context.generator(run, "noise")
        curvatures = torch.rand(run.dimensions, generator=source, dtype=torch.float64)
        curvatures = run.curvature_ratio * factor * curvatures / curvatures.max()
        start = torch.randn(run.dimensions, generator=source, dtype=torch.float64)
        growth = growth_rate(curvatures, start, run.rule, run.momentum, run.steps)
        context.record(run, growth=growth, threshold=threshold(run.rule, run.momentum), formula=factor)


def growth_rate(curvatures: torch.Tensor, start: torch.Tensor, rule: Rule, momentum: float, steps: int) -> float:
    """Mean of log‖x_{t+1}‖ − log‖x_t‖ over the second half of `steps` steps of the rule on ½ Σ λᵢ xᵢ², η = 1."""
    point, logarithm, halfway = torch.nn.Parameter(start.clone()), 0.0, 0.0
    optimiser = torch.optim.SGD([point], 1.0, momentum=momentum, nesterov=rule == "nesterov")
    for step in range(steps):
        if step == steps // 2:
            halfway = logarithm + float(point.detach().norm().log())
        point.grad = curvatures * point.detach()
        optimiser.step()
        size = float(point.detach().norm())
        if not 1e-100 < size < 1e100:  # the rule is linear: point and velocity shrink together
            logarithm += math.log(size)
            point.data.div_(size)
            if momentum:
                optimiser.state[point]["momentum_buffer"].div_(size)
    return (logarithm + float(point.detach().norm().log()) - halfway) / (steps - steps // 2)


def threshold(rule: Rule, momentum: float) -> float:
    """The curvature at which the spectral radius of one step of the rule (η = 1) passes 1, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _radius(middle, rule, momentum) < 1 - 1e-12 else (low, middle)
    return (low + high) / 2


def _radius(curvature: float, rule: Rule, momentum: float) -> float:
    """Spectral radius of the map (x, v) ↦ (x⁺, v⁺), v⁺ = βv + λx, x⁺ = x − v⁺ or, for Nesterov, x − λx − βv⁺."""
    velocity = torch.tensor([curvature, momentum], dtype=torch.float64)
    moved = (
        torch.tensor([curvature, 0.0], dtype=torch.float64) + momentum * velocity if rule == "nesterov" else velocity
    )
    step = torch.stack([torch.tensor([1.0, 0.0], dtype=torch.float64) - moved, velocity])
    return float(torch.linalg.eigvals(step).abs().max())
