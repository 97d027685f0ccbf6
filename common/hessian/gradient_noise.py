"""Noise of the gradient of one random example: covariance Σ, its trace and norm, and Tr(ΣG).

Σ = 1/N Σ_n (gₙ − ∇L)(gₙ − ∇L)ᵀ, gₙ the gradient of example n
"""

from dataclasses import replace

import torch

from common.hessian.estimates import ROUNDINGS, Accuracy, Estimate, average, square_root
from common.hessian.ggn import GGN, NoiseCovariance
from common.hessian.per_sample import chunk_linearisations
from common.hessian.problem import Problem
from common.hessian.products import MEMORY_LIMIT
from common.hessian.random import generator, signs
from common.hessian.spectrum import squared_frobenius_norm


def per_sample_gradient_norms(problem: Problem) -> torch.Tensor:
    """‖gₙ‖ of each example [N], at the cost of about two thirds of a gradient in known layers.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.fill_(1.0)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> per_sample_gradient_norms(Problem(model, torch.nn.MSELoss(), data)).tolist()
        [2.0, 8.0]
    """
    parts = []
    for chunk, at in chunk_linearisations(problem):
        norms = at.norms(problem.output_gradient(at.outputs, chunk.targets))
        parts.append(torch.stack(norms).sum(0).sqrt())
    return problem.gathered(torch.cat(parts))


def noise_trace(problem: Problem) -> Estimate:
    """Tr Σ = mean ‖gₙ‖² − ‖∇L‖², exactly but for rounding, which is the bound where the difference is as small.

    Raises:
        ValueError: the loss is a sum.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.fill_(1.0)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> noise_trace(Problem(model, torch.nn.MSELoss(), data)).value
        9.0
    """
    problem.require_mean()
    squares = float(per_sample_gradient_norms(problem).double().square().mean())
    value = squares - float(problem.gradient().double().square().sum())
    rounding = ROUNDINGS * torch.finfo(problem.dtype).eps * squares
    bound = rounding if value < 1000 * rounding else 0.0
    method = "exact, norms of the gradients of the examples"
    return Estimate(max(value, 0.0), bound=bound, passes=2, cost=5 / 3, method=method)


def noise_norm(
    problem: Problem,
    *,
    relative_error: float = 0.05,
    budget: float = 1000.0,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
) -> Estimate:
    """‖Σ‖_F from E ‖Σv‖²; exact from `alignment` where the empirical NTK is small enough.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.fill_(1.0)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> noise_norm(Problem(model, torch.nn.MSELoss(), data)).value
        9.0
    """
    operator = NoiseCovariance(problem, memory_limit=memory_limit)
    squared = squared_frobenius_norm(operator, relative_error=2 * relative_error, budget=budget, seed=seed)
    return square_root(squared, f"Frobenius norm, {operator.name}")


def noise_along_curvature(
    problem: Problem,
    *,
    relative_error: float = 0.05,
    budget: float = 1000.0,
    seed: int = 0,
    centred: bool = True,
    memory_limit: int = MEMORY_LIMIT,
) -> Estimate:
    """Tr(ΣG) = E ξᵀGξ, ξ = N^(-1/2) Σ_n (εₙ − mean ε) gₙ with random signs ε: its covariance is Σ.

    One weighted backward pass and one forward derivative a draw. Wu, Wang and Su 2022 divide it by 2 L ‖G‖²_F.

    Args:
        centred: False for the second moment of the gradients in place of Σ.

    Raises:
        ValueError: the loss is a sum.

    Example:
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> with torch.no_grad(): _ = model.weight.fill_(1.0)
        >>> data = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> round(noise_along_curvature(Problem(model, torch.nn.MSELoss(), data), budget=3000).value / 45, 0)
        1.0
    """
    problem.require_mean()
    source = generator(seed)
    curvature = GGN(problem, memory_limit=memory_limit)

    def draw() -> float:
        weights = signs((problem.count,), source, problem.parameters[0].detach())
        if centred:
            weights = weights - weights.mean()
        return curvature.quadratic_form(curvature.weighted_gradient(weights / problem.count**0.5))

    found = average(
        draw,
        cost=lambda: 2 / 3 + curvature.again_cost + curvature.form_cost,
        accuracy=Accuracy(relative_error, budget),
        seed=seed,
        method="noise along curvature",
    )
    return replace(found, cost=curvature.cost)
