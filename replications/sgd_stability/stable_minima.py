"""Figures 7, 12 and 13: which minima of a landscape gradient flow and gradient descent select."""

import math
from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext

OURS = "our choice, deviation D46"
NEAR = 1e-3


class Parameters(ExperimentParameters):
    """A circle with two maxima (A, B), a sharp minimum C at 0 and a flat one D at π."""

    warp: float = Field(0.5, gt=0, lt=1, description="κ: the curvatures of C and D are 2 (1 ± κ)²", source=OURS)
    learning_rate: float = Field(0.01, gt=0, description="η of gradient descent", source=OURS)
    starts: int = Field(720, ge=8, description="starting points, evenly spaced, none on a critical point", source=OURS)
    path_start: float = Field(0.05, description="where the path of the figure starts, near C", source=OURS)
    path_steps: int = Field(40, ge=1, description="length of that path", source=OURS)
    time: float = Field(60.0, gt=0, description="learning rate × steps", source=OURS)
    least_steps: int = Field(4000, ge=1, description="steps, whatever the learning rate", source=OURS)
    shift: float = Field(0.3, gt=0, description="of the test landscape in Fig. 7", source=OURS)


def landscape(position: torch.Tensor, warp: float) -> torch.Tensor:
    """f(θ) = (1 − cos 2(θ + κ sin θ))/2, of period 2π."""
    return (1 - torch.cos(2 * (position + warp * position.sin()))) / 2


def slope(position: torch.Tensor, warp: float) -> torch.Tensor:
    """f′(θ)."""
    return torch.sin(2 * (position + warp * position.sin())) * (1 + warp * position.cos())


def curvatures(warp: float) -> tuple[float, float]:
    """f″ at C and at D."""
    return 2 * (1 + warp) ** 2, 2 * (1 - warp) ** 2


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Run gradient descent from every start and count where it ends; keep one path that starts near C."""
    for run in runs:
        sharp, flat = curvatures(run.warp)
        starts = (torch.arange(run.starts, dtype=torch.float64) + 0.5) * (2 * math.pi / run.starts)
        ends = starts.clone()
        for _ in range(max(run.least_steps, math.ceil(run.time / run.learning_rate))):
            ends -= run.learning_rate * slope(ends, run.warp)
        still = slope(ends, run.warp).abs() < NEAR
        at_sharp = still & (_distance(ends, 0.0) < 0.05)
        at_flat = still & (_distance(ends, math.pi) < 0.05)
        shifted = torch.tensor([run.shift, math.pi + run.shift], dtype=torch.float64)
        rise = landscape(shifted, run.warp).tolist()
        context.record(
            run,
            kind="ends",
            curvature_sharp=sharp,
            curvature_flat=flat,
            rise_sharp=rise[0],
            rise_flat=rise[1],
            share_sharp=float(at_sharp.double().mean()),
            share_flat=float(at_flat.double().mean()),
            share_elsewhere=float((still & ~at_sharp & ~at_flat).double().mean()),
            share_moving=float((~still).double().mean()),
        )
        position = torch.tensor([run.path_start], dtype=torch.float64)
        for step in range(run.path_steps + 1):
            context.record(
                run, kind="path", step=step, position=float(position), height=float(landscape(position, run.warp))
            )
            position = position - run.learning_rate * slope(position, run.warp)


def _distance(position: torch.Tensor, target: float) -> torch.Tensor:
    """On the circle."""
    return (torch.remainder(position - target + math.pi, 2 * math.pi) - math.pi).abs()
