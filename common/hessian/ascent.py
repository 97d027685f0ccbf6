"""Maximising a function over a convex set: projected gradient ascent with Barzilai–Borwein steps and backtracking."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

Point = torch.Tensor

VANISHED = 1e-30
"""Norm of a gradient below which no step along it is representable in float32."""


@dataclass(frozen=True)
class Maximum:
    """What the optimiser found.

    Attributes:
        point, value: the best feasible point and its value.
        iterations, evaluations: steps taken and gradients computed.
        converged: the projected gradient step vanished.
        status: what ended it.
    """

    point: Point
    value: float
    iterations: int
    evaluations: int
    converged: bool
    status: str

    def __str__(self) -> str:
        return (
            f"projected gradient ascent, Barzilai–Borwein steps: {self.status}, {self.iterations} iterations, "
            f"{self.evaluations} evaluations"
        )


def maximise(
    function: Callable[[Point], tuple[float, Point]],
    start: Point,
    project: Callable[[Point], Point],
    iterations: int,
    *,
    tolerance: float = 1e-4,
) -> Maximum:
    """Maximise a differentiable function (which returns value and gradient) over the set that `project` maps onto."""
    point = project(start)
    value, slope = function(point)
    evaluations = 1
    size = float((project(point + slope) - point).norm())
    scale = max(float(point.norm()), size, 1e-12)
    length = scale / max(float(slope.norm()), VANISHED)
    for iteration in range(iterations + 1):
        converged = size <= tolerance * scale
        if converged or iteration == iterations:
            status = "the projected gradient vanished" if converged else f"{iterations} iterations"
            break
        for _ in range(20):
            candidate = project(point + length * slope)
            step = candidate - point
            new_value, new_slope = function(candidate)
            evaluations += 1
            if new_value >= value + 1e-4 * float(slope @ step):
                break
            length /= 4
        else:
            status = "no step along the gradient raised the loss"
            break
        bend = -float(step @ (new_slope - slope))
        length = float(step @ step) / bend if bend > 0 else 10 * length
        point, value, slope = candidate, new_value, new_slope
        unit = scale / max(float(slope.norm()), VANISHED)
        size = float((project(point + unit * slope) - point).norm())
        length = min(max(length, 1e-3 * unit), 1e6 * unit)
    return Maximum(point, value, iteration, evaluations, converged=converged, status=status)
