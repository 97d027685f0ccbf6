"""Whether custom autograd functions can be differentiated twice, found out by finite differences of the gradient.

What torch computes itself is trusted. A `torch.autograd.Function` whose backward is opaque to autograd (detached, by
NumPy, or marked `once_differentiable`) may give second derivatives that lack its part, without an error.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.autograd.function import BackwardCFunction

from common.hessian.random import generator, normal
from common.hessian.structure import graph_nodes

TOLERANCE = 0.02
STEPS = {torch.float32: (1e-2, 1e-3), torch.float64: (1e-2, 1e-3, 1e-4, 1e-5)}
"""Lengths of the step over that of the weights; several, since a kink spoils the longer ones."""


def agrees_with_differences(
    parameters: Sequence[nn.Parameter],
    loss: Callable[[], torch.Tensor],
    at: Callable[[torch.Tensor], AbstractContextManager[None]],
) -> bool:
    """Whether a Hessian product is the central difference of the gradient, along one random direction.

    What makes up less than 2 % of it passes. Costs one product and a few gradients.

    Args:
        loss: recorded, at the present weights.
        at: moves the weights to a vector [P] and back.
    """

    def derivative(value: torch.Tensor, weights: torch.Tensor | None = None, record: bool = False) -> torch.Tensor:
        found = torch.autograd.grad(value, parameters, weights, create_graph=record, materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in found])

    here = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    direction = normal(here.shape, generator(0), here)
    direction = direction / direction.norm()
    gradient = derivative(loss(), record=True)
    product = derivative(gradient, direction) if gradient.requires_grad else torch.zeros_like(here)
    scale = float(here.norm()) or 1.0
    for step in STEPS[here.dtype]:
        length = step * scale
        ends = []
        for sign in (1, -1):
            with at(here + sign * length * direction):
                ends.append(derivative(loss()))
        difference = (ends[0] - ends[1]) / (2 * length)
        rounding = 4 * torch.finfo(here.dtype).eps * float(gradient.detach().norm()) / length
        allowed = TOLERANCE * max(float(difference.norm()), float(product.norm())) + rounding
        if float((difference - product).norm()) <= allowed:
            return True
    return False


def custom_functions(value: torch.Tensor) -> list[str]:
    """Names of the custom autograd functions in the graph that autograd recorded of `value`."""
    nodes = filter(_is_custom, graph_nodes(value))
    return sorted({type(node).__name__.removesuffix("Backward") for node in nodes})


def _is_custom(node: Any) -> bool:
    return isinstance(node, BackwardCFunction) or type(node).__name__ == "CppFunction"
