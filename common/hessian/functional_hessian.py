"""The Hessian beyond the GGN, H − G, and Tr H with the exact Tr G as a control variate.

H − G = 1/N Σ_n Σ_d (∂ℓₙ/∂f_nd) ∇²f_nd is the Hessian of the loss made linear in the outputs f where they are, the
functional Hessian of Singh, Bachmann and Hofmann (2021). It shrinks with the slope of the loss, on fitted examples to
nothing, and so does the spread of its quadratic forms: where G makes up most of H, draws of it are few.
"""

import math
from dataclasses import replace

from common.hessian.deflation import deflated_trace
from common.hessian.estimates import Estimate
from common.hessian.probes import probed_names
from common.hessian.problem import Problem
from common.hessian.products import MEMORY_LIMIT, Hessian
from common.hessian.traces import Method, trace

SHARES = (0.8, 0.6)
"""Parts of the wanted error that the draws for Tr G and for Tr(H − G) may make up: 0.8² + 0.6² = 1."""


class FunctionalHessian(Hessian):
    """H − G as a linear operator.

    Example:
        >>> import torch
        >>> problem = Problem(torch.nn.Linear(2, 1), torch.nn.MSELoss(), (torch.eye(2), torch.ones(2, 1)))
        >>> (FunctionalHessian(problem) @ torch.ones(3)).tolist()
        [0.0, 0.0, 0.0]
    """

    name = "functional Hessian"

    def __init__(self, problem: Problem, *, memory_limit: int = MEMORY_LIMIT) -> None:
        super().__init__(problem.linear_in_outputs(), memory_limit=memory_limit)


def control_variate_trace(
    problem: Problem,
    *,
    relative_error: float = 0.01,
    budget: float = 1000.0,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
    deflate: int = 0,
) -> Estimate:
    """Tr H = Tr G + Tr(H − G): the first exactly, or by output signs where there are many outputs, the second by draws.

    Args:
        relative_error, budget, seed, memory_limit: as for `trace`.
        deflate: draws for H − G by `deflated_trace` with so many dimensions, instead of sample signs or Hutchinson.

    Example:
        >>> import torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        >>> problem = Problem(model, torch.nn.CrossEntropyLoss(), (torch.ones(4, 3), torch.tensor([0, 1, 1, 0])))
        >>> control_variate_trace(problem, relative_error=0.1).method
        'exact GGN trace + sample signs of H − G'
    """
    of_ggn, of_rest = (part * relative_error for part in SHARES)
    ggn = trace(problem, "ggn", relative_error=of_ggn, budget=budget / 2, seed=seed)
    if problem.structure.piecewise_linear:
        return replace(ggn, reason="the outputs are piecewise linear in the parameters, so Tr H = Tr G")
    if not ggn.standard_error:
        of_rest = relative_error
    left = max(budget - ggn.cost, 1.0)
    if deflate:
        operator = FunctionalHessian(problem, memory_limit=memory_limit)
        rest = deflated_trace(operator, deflate, relative_error=of_rest, budget=left, seed=seed + 1, beside=ggn.value)
    else:
        method: Method = "sample signs" if len(probed_names(problem)) == len(problem.names) else "hutchinson"
        rest = trace(
            problem.linear_in_outputs(),
            relative_error=of_rest,
            budget=left,
            seed=seed + 1,
            method=method,
            memory_limit=memory_limit,
            beside=ggn.value,
        )
    value, error = ggn.value + rest.value, math.hypot(ggn.standard_error, rest.standard_error)
    return Estimate(
        value,
        error,
        samples=ggn.samples + rest.samples,
        passes=ggn.passes + rest.passes,
        cost=ggn.cost + rest.cost,
        seed=seed,
        method=f"{ggn.method} + {rest.method.split(',')[0]} of H − G",
        converged=error <= relative_error * abs(value),
        reason=ggn.reason if not ggn.converged else rest.reason,
    )
