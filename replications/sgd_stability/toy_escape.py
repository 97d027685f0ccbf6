"""Figure 15 and equations (4) to (6): SGD leaves a minimum where gradient descent would stay."""

from collections.abc import Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext

LECTURE = "Wu 2025"
SHOWN = 12
"""Trajectories a run records step by step."""


class Parameters(ExperimentParameters):
    """Settings of a run."""

    half: bool = Field(
        False,
        description="whether f₁ and f₂ carry the factors ½ of the slide before Fig. 15",
        source=f"{LECTURE}, Fig. 15 has none, deviation D2",
    )
    method: str = Field(
        "sgd", pattern="^(sgd|gd)$", description="SGD picks f₁ or f₂; GD takes their mean", source=LECTURE
    )
    learning_rate: float = Field(0.7, gt=0, description="η", source=f"{LECTURE}, Fig. 15")
    curvatures: tuple[float, float] = Field(
        (0.1, 1.9), description="of f₁ and f₂ at x = 1", source=f"{LECTURE}, Fig. 15"
    )
    distance: float = Field(1e-5, gt=0, description="ε, the start lies at 1 − ε", source=f"{LECTURE}, Fig. 15")
    trajectories: int = Field(200, ge=1, description="of one seed", source="as in Fig. 19")
    steps: int = Field(
        500, ge=1, unit="steps", description="length of a trajectory", source="the authors' published code"
    )
    examples: int = Field(50, ge=2, description="n of the one-dimensional problem (2)", source="our choice")
    batch_sizes: tuple[int, ...] = Field((1, 4, 25, 50), description="B in equation (6)", source="our choice")
    sharpnesses: tuple[float, ...] = Field((0.5, 1.0, 2.0), description="a in equation (5)", source="our choice")
    spreads: tuple[float, ...] = Field(
        (0.3, 0.9, 1.5), description="standard deviations of log aᵢ, which decide s", source="our choice"
    )
    rates: tuple[float, ...] = Field((0.1, 0.5, 1.0), description="η in equations (4) to (6)", source="our choice")
    draws: int = Field(4000, ge=2, description="batches behind a simulated one-step multiplier", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """All seeds of one variant; without the factors also the multipliers of the one-dimensional problem."""
    for run in runs:
        _escape(run, context)
        if not run.half and run.method == "sgd":
            _multipliers(run, context)


def _escape(run: Parameters, context: RunContext) -> None:
    """Descent on f = (f₁ + f₂)/2 from 1 − ε, recording when each trajectory is nearer to 0 than to 1."""
    generator = context.generator(run, "trajectories")
    flat, steep = (torch.tensor(c, dtype=torch.float64) for c in run.curvatures)
    x = torch.full((run.trajectories,), 1 - run.distance, dtype=torch.float64)
    escaped = torch.full((run.trajectories,), run.steps + 1, dtype=torch.int64)
    for step in range(run.steps + 1):
        escaped = torch.where((x.abs() < 0.5) & (escaped > run.steps), step, escaped)
        if step % 5 == 0 or step <= 100:
            context.record(
                run,
                kind="path",
                step=step,
                median_distance=float((x - 1).abs().median()),
                **{f"x{number}": float(value) for number, value in enumerate(x[:SHOWN])},
            )
        if run.method == "sgd":
            curvature = torch.where(torch.rand(len(x), generator=generator, dtype=torch.float64) < 0.5, flat, steep)
            slope = _slope(x, curvature, run.half)
        else:
            slope = (_slope(x, flat, run.half) + _slope(x, steep, run.half)) / 2
        x = x - run.learning_rate * slope
    context.record(
        run,
        kind="escape",
        escaped=float((escaped <= run.steps).double().mean()),
        median_time=float(escaped.median()),
        at_zero=float((x.abs() < 1e-3).double().mean()),
    )


def _slope(x: torch.Tensor, curvature: torch.Tensor, half: bool) -> torch.Tensor:
    """Derivative of min(x², c (x − 1)²), halved if `half`."""
    at_zero = x.square() <= curvature * (x - 1).square()
    slope = torch.where(at_zero, 2 * x, 2 * curvature * (x - 1))
    return slope / 2 if half else slope


def _multipliers(run: Parameters, context: RunContext) -> None:
    """E x′/x and E x′²/x² of one step of SGD on (2), simulated and by equations (4) and (6)."""
    generator = context.generator(run, "multipliers")
    n = run.examples
    raw = torch.randn(n, generator=generator, dtype=torch.float64)
    order = torch.rand(run.draws, n, generator=generator, dtype=torch.float64).argsort(1)
    for a in run.sharpnesses:
        for spread in run.spreads:
            curvatures = a * (spread * raw).softmax(0) * n
            s = float(curvatures.std(correction=0))
            for size in run.batch_sizes:
                of_batch = curvatures[order[:, :size]].mean(1)
                for rate in run.rates:
                    step = 1 - rate * of_batch
                    square = (1 - rate * a) ** 2 + rate**2 * (n - size) / (size * (n - 1)) * s**2
                    squares = step.square()
                    context.record(
                        run,
                        kind="multiplier",
                        sharpness_a=a,
                        non_uniformity_s=s,
                        batch=size,
                        rate=rate,
                        first=float(step.mean()),
                        first_predicted=1 - rate * a,
                        first_error=float(step.std() / run.draws**0.5),
                        second=float(squares.mean()),
                        second_predicted=square,
                        second_error=float(squares.std() / run.draws**0.5),
                        typical=float(step.abs().clamp(min=1e-12).log().mean()),
                    )
