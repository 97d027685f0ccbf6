"""Curvature of the two-layer networks by the Hessian toolkit: diag H, products with H, λ₁, at k sets of weights.

The toolkit measures one network at a time, so tasks go one after the other; each is a problem of its own, made once.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from common.hessian import Estimate, Hessian, diagonal, sharpness
from common.hessian import Problem as CurvatureProblem

from .two_layer import LossName, Problem, Sizes

RELATIVE_ERROR = 1e-3
"""Of λ₁: how far it may lie above the value, over the value, with probability 0.99."""


def wrong_probability(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean of 1 − p_y over examples: logits [n, classes], targets [n]."""
    return -torch.expm1(-functional.cross_entropy(logits, targets, reduction="none")).mean()


LOSSES: dict[LossName, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cross_entropy": functional.cross_entropy,
    "probability": wrong_probability,
}


class Curvature:
    """Of the mean loss of each of k tasks, in float64; rows of `weights` [k, m] are laid out as in `two_layer`."""

    def __init__(self, problem: Problem, loss: LossName = "cross_entropy") -> None:
        model = _network(problem.sizes).to(problem.images.device)
        self._tasks = [
            CurvatureProblem(model, LOSSES[loss], (images.double(), targets))
            for images, targets in zip(problem.images, problem.targets, strict=True)
        ]

    def diagonal(self, weights: torch.Tensor) -> torch.Tensor:
        """diag H [k, m]. Exact: the logits are piecewise linear in each weight, so it is the Gauss–Newton diagonal."""
        rows = []
        for task, row in zip(self._tasks, weights, strict=True):
            with task.at(row):
                rows.append(task.flat(diagonal(task).diagonal))
        return torch.stack(rows)

    def product(self, weights: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """H v [k, m] for one v [k, m] a task."""
        rows = []
        for task, row, vector in zip(self._tasks, weights, vectors, strict=True):
            with task.at(row):
                rows.append(Hessian(task) @ vector)
        return torch.stack(rows)

    def sharpness(self, weights: torch.Tensor, seeds: Sequence[int]) -> list[Estimate]:
        """λ₁ of each task with its error bound; `seeds` of the start vectors."""
        found = []
        for task, row, seed in zip(self._tasks, weights, seeds, strict=True):
            with task.at(row):
                found.append(sharpness(task, relative_error=RELATIVE_ERROR, seed=seed).estimate)
        return found


def _network(sizes: Sizes) -> nn.Module:
    """Its parameters, one after the other, are a row of weights."""
    first, second = (
        nn.Linear(sizes.inputs, sizes.width, bias=False),
        nn.Linear(sizes.width, sizes.classes, bias=False),
    )
    return nn.Sequential(first, nn.ReLU(), second).double()
