"""Strict local minima of a function of two parameters within a square."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from common.hessian import dense_hessian

Function = Callable[[torch.Tensor], torch.Tensor]

CHUNK = 512
"""Points at a time: what a sample of 100 makes of them stays in the cache."""
LONGEST_STEP = 0.5
SAME_POINT = 0.05
FLAT_GRADIENT = 1e-8
POSITIVE_CURVATURE = 1e-6


@dataclass(frozen=True)
class Minima:
    """Distinct strict minima in order of their loss: points [k, 2], losses [k], Hessians [k, 2, 2]."""

    points: torch.Tensor
    losses: torch.Tensor
    hessians: torch.Tensor

    @property
    def sharpness(self) -> torch.Tensor:
        """λ₁ of each Hessian, [k]."""
        eigenvalues: torch.Tensor = torch.linalg.eigvalsh(self.hessians)
        return eigenvalues[:, -1]


def square_grid(half_width: float, count: int) -> torch.Tensor:
    """count² points [count², 2] of the square |w_i| ≤ half_width, the second coordinate running fastest."""
    axis = torch.linspace(-half_width, half_width, count, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis)


def in_chunks(function: Function, points: torch.Tensor) -> torch.Tensor:
    """Values of `function` without gradients, chunk by chunk."""
    with torch.no_grad():
        return torch.cat([function(part) for part in torch.split(points, CHUNK)])


def derivatives(function: Function, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values [k], gradients [k, 2], Hessians [k, 2, 2]: the function's own where it has them, else by autograd."""
    own = getattr(function, "derivatives", None)
    return own(points) if own is not None else dense_hessian(function, points)


def find_minima(function: Function, *, half_width: float, count: int) -> Minima:
    """Minima reached by damped Newton descent from the local minima of a count × count grid.

    Kept are those inside the square with a gradient below 1e-8 and both eigenvalues above 1e-6; two that lie within
    0.05 of each other count once.
    """
    grid = square_grid(half_width, count)
    starts = grid[_lowest_of_neighbours(in_chunks(function, grid).view(count, count)).flatten()]
    points = _descend(function, starts)
    losses, gradients, hessians = derivatives(function, points)
    good = (
        (points.abs().amax(1) < half_width)
        & (gradients.norm(dim=1) < FLAT_GRADIENT)
        & (torch.linalg.eigvalsh(hessians)[:, 0] > POSITIVE_CURVATURE)
    )
    kept: list[int] = []
    for index in losses.argsort().tolist():
        if good[index] and all((points[index] - points[other]).norm() > SAME_POINT for other in kept):
            kept.append(index)
    return Minima(points[kept], losses[kept], hessians[kept])


def _lowest_of_neighbours(values: torch.Tensor) -> torch.Tensor:
    """Where a grid value is below its eight neighbours (never on the border), as truth values of the grid's shape."""
    lowest = torch.zeros_like(values, dtype=torch.bool)
    inner = values[1:-1, 1:-1]
    rows, columns = inner.shape
    around = [values[i : i + rows, j : j + columns] for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    lowest[1:-1, 1:-1] = inner < torch.stack(around).amin(0)
    return lowest


def _descend(function: Function, points: torch.Tensor, most_steps: int = 50) -> torch.Tensor:
    """Newton steps with |eigenvalues|, no longer than 0.5 and halved until the function does not rise."""
    points = points.clone()
    moving = torch.arange(len(points))
    for _ in range(most_steps):
        values, gradients, hessians = derivatives(function, points[moving])
        rough = gradients.norm(dim=1) > FLAT_GRADIENT / 1000
        moving = moving[rough]
        if not len(moving):
            break
        step = _newton_step(gradients[rough], hessians[rough])
        points[moving] += _shortened(function, points[moving], values[rough], step)
    return points


def _newton_step(gradients: torch.Tensor, hessians: torch.Tensor) -> torch.Tensor:
    eigenvalues, vectors = torch.linalg.eigh(hessians)
    coordinates = (vectors.mT @ gradients[..., None])[..., 0] / (eigenvalues.abs() + 1e-12)
    step: torch.Tensor = -(vectors @ coordinates[..., None])[..., 0]
    length: torch.Tensor = step.norm(dim=1, keepdim=True)
    return step * (LONGEST_STEP / length.clamp(min=1e-300)).clamp(max=1)


def _shortened(function: Function, points: torch.Tensor, values: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    """The step, halved up to 20 times until the function does not rise, else no step."""
    for _ in range(20):
        rises = in_chunks(function, points + step) > values
        if not bool(rises.any()):
            return step
        step = torch.where(rises[:, None], step / 2, step)
    return torch.where(rises[:, None], 0.0, step)
