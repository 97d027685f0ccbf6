"""Tr ∇²ℓ of every single example of a piecewise linear network."""

import torch

from common.hessian import Problem
from common.hessian.per_sample import chunk_linearisations

GRADIENTS = 10
"""Gradients of an example that its trace is worth, with ten classes."""


def example_traces(problem: Problem) -> torch.Tensor:
    """Tr ∇²ℓₙ = Σ_c ‖Jₙᵀ Sₙc‖² of each example, float64 [n] on the CPU; exact, where Tr H = Tr G.

    Raises:
        ValueError: the network is not piecewise linear in its parameters.

    Example:
        >>> model = torch.nn.Linear(2, 1)
        >>> data = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.ones(2, 1)
        >>> example_traces(Problem(model, torch.nn.MSELoss(), data)).tolist()
        [4.0, 10.0]
    """
    if not problem.structure.piecewise_linear:
        raise ValueError(f"Traces of single examples need a piecewise linear network: {problem.structure.reason}.")
    parts = []
    for chunk, at in chunk_linearisations(problem):
        factor, sign = problem.curvature.factor(at.outputs, chunk.targets)
        traces = torch.zeros(len(chunk), dtype=torch.float64)
        for column in range(factor.shape[2]):
            norms = torch.stack(at.norms(factor[:, :, column])).double().sum(0)
            traces += (norms * sign[:, column]).cpu()
        parts.append(traces)
    return torch.cat(parts)
