"""Figure 2: at a fixed perturbation a larger curvature makes the sharpness term M larger, in one dimension."""

from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.quadrature import expected_over_uniform

OURS = "our choice; not stated for Fig. 2"


class Parameters(ExperimentParameters):
    """Settings of the illustration: L(w) = h w²/2 + ρ |w|³/6, for which the inequality (5) is an equality at 0."""

    curvature: float = Field(1.0, gt=0, description="h = L''(0)", source=OURS)
    rho: float = Field(1.0, ge=0, description="Lipschitz constant of L''", source=OURS)
    levels: tuple[float, ...] = Field((0.25, 0.5, 1.0), description="half widths σ of the perturbation", source=OURS)
    growth: float = Field(1.1, gt=1, description="factor on h whose effect on M is recorded", source=OURS)
    half_width: float = Field(2.0, gt=0, description="half width of the drawn interval", source=OURS)
    points: int = Field(81, ge=11, description="points of a drawn curve", source=OURS)


def sharpness_term(curvature: float, rho: float, level: float) -> float:
    """M = ½ h E u² + ρ/6 E |u|³ for u uniform in ±σ: h σ²/6 + ρ σ³/24 (Wang et al. 2018, eq. 9)."""
    return curvature * level**2 / 6 + rho * level**3 / 24


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """M by eq. (9), the rise of the loss by quadrature, and the curve itself."""
    for run in runs:

        def loss(points: torch.Tensor, run: Parameters = run) -> torch.Tensor:
            return (run.curvature * points.square() / 2 + run.rho * points.abs() ** 3 / 6).sum(1)

        for level in run.levels:
            half_widths = torch.full((1, 1), level, dtype=torch.float64)
            rise = expected_over_uniform(loss, torch.zeros(1, 1, dtype=torch.float64), half_widths)
            value = sharpness_term(run.curvature, run.rho, level)
            larger = sharpness_term(run.growth * run.curvature, run.rho, level)
            context.record(run, kind="level", level=level, sharpness=value, rise=float(rise), larger_sharpness=larger)
        places = torch.linspace(-run.half_width, run.half_width, run.points, dtype=torch.float64)
        for place, value in zip(places.tolist(), loss(places[:, None]).tolist(), strict=True):
            context.record(run, kind="curve", w=place, loss=value)
