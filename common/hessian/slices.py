"""Losses on lines and planes through the weights, and random directions scaled filter by filter (Li et al. 2018)."""

import itertools
from collections.abc import Iterable, Sequence

import torch

from common.hessian.problem import Problem
from common.hessian.random import generator


def loss_slice(problem: Problem, directions: torch.Tensor, *coefficients: Sequence[float]) -> torch.Tensor:
    """L(w + Σ c_k d_k) wherever the coefficients lead, a line or a plane through the weights w, which stay as they are.

    Args:
        directions: d_k as columns [P, K], as `eigenpairs(…).vectors` has them, or one [P].
        coefficients: for each direction the values that c_k takes, in units of its length.

    Returns:
        float64 [n_1, …, n_K] on the CPU; a third of a gradient each.

    Raises:
        ValueError: another shape, or not as many lists of coefficients as directions; the loss is NaN somewhere.

    Example:
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.zero_()
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(2) * 2, torch.zeros(2, 1)))
        >>> loss_slice(problem, torch.eye(2), [0, 1], [-1, 0, 3]).tolist()
        [[2.0, 0.0, 18.0], [4.0, 2.0, 20.0]]
    """
    columns = directions[:, None] if directions.dim() == 1 else directions
    if columns.dim() != 2 or len(columns) != problem.size:
        raise ValueError(
            f"Directions of shape {tuple(directions.shape)}: expected ({problem.size},), or ({problem.size}, K) for K."
        )
    if columns.shape[1] != len(coefficients):
        raise ValueError(f"{len(coefficients)} lists of coefficients were given for {columns.shape[1]} directions.")
    centre = problem.vector()
    steps = columns.to(centre).unbind(1)
    losses = []
    for at in itertools.product(*coefficients):
        point = centre
        for coefficient, step in zip(at, steps, strict=True):
            point = point + coefficient * step
        with problem.at(point):
            losses.append(problem.loss())
    return torch.tensor(losses, dtype=torch.float64).view([len(values) for values in coefficients])


def filter_normalised(problem: Problem, *, seed: int = 0) -> torch.Tensor:
    """A random direction [P] in which each filter is as long as the network's own, so that pictures can be compared.

    A filter is what makes one output channel of a convolution or one unit of a linear layer. The direction leaves
    biases and the weights of normalisations as they are.

    Li et al. 2018, section 4: d_{i,j} ← d_{i,j} ‖θ_{i,j}‖/‖d_{i,j}‖ for a normal d.

    Example:
        >>> model = torch.nn.Linear(3, 2)
        >>> problem = Problem(model, torch.nn.MSELoss(), (torch.eye(3), torch.zeros(3, 2)))
        >>> direction = problem.split(filter_normalised(problem))
        >>> torch.allclose(direction[0].norm(dim=1), model.weight.norm(dim=1)), direction[1].tolist()
        (True, [0.0, 0.0])
    """
    return problem.flat(drawn_by_filter([p.detach() for p in problem.parameters], generator(seed)))


def drawn_by_filter(parameters: Iterable[torch.Tensor], source: torch.Generator) -> list[torch.Tensor]:
    """`filter_normalised` of parameters, a tensor each."""
    direction = []
    for parameter in parameters:
        drawn = torch.randn(parameter.shape, generator=source).to(parameter)
        if parameter.dim() < 2:
            direction.append(torch.zeros_like(parameter))
            continue
        along = tuple(range(1, parameter.dim()))
        lengths = parameter.detach().square().sum(along, keepdim=True).sqrt()
        direction.append(drawn * lengths / drawn.square().sum(along, keepdim=True).sqrt().clamp(min=1e-12))
    return direction
