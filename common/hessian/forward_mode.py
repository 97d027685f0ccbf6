"""Derivatives in a direction of the weights by forward differentiation."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.autograd.forward_ad as forward

from common.hessian.chunks import Chunk
from common.hessian.problem import Problem


@contextmanager
def dual_parameters(problem: Problem, direction: Sequence[torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Within: the parameters by name as dual numbers, with `direction` (in their shapes) as tangent.

    Gradients are enabled, though none is recorded: some networks compute otherwise without.
    """
    with torch.enable_grad(), problem.only_selected(active=False), forward.dual_level():
        yield {
            name: forward.make_dual(parameter.detach(), tangent)
            for name, parameter, tangent in zip(problem.names, problem.parameters, direction, strict=True)
        }


def forward_derivative(problem: Problem, chunk: Chunk, direction: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """J v [n, …] of a chunk; None if the outputs depend on no parameter.

    Args:
        direction: v, in the shapes of `problem.parameters`.
    """
    with dual_parameters(problem, direction) as values:
        tangent = forward.unpack_dual(problem.outputs(chunk.inputs, values)).tangent
    return None if tangent is None else tangent.detach()
