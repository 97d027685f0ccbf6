"""Custom autograd functions in the graph of a loss: their backward pass is the author's, not torch's."""

from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from common.hessian.structure import graph_nodes


def custom_functions(value: torch.Tensor) -> list[str]:
    """Names of the custom autograd functions in the graph that autograd recorded of `value`."""
    nodes = filter(_is_custom, graph_nodes(value))
    return sorted({type(node).__name__.removesuffix("Backward") for node in nodes})


def _is_custom(node: Any) -> bool:
    return isinstance(node, BackwardCFunction) or type(node).__name__ == "CppFunction"
