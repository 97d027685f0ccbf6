"""Tr ∇²ℓ of the cross-entropy of a two-layer ReLU network in closed form, with derivatives by the weights."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional


def two_layer_trace(weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """Mean over examples of Tr ∇²ℓ at z = W₂ relu(W₁ x + b₁) + b₂, as a scalar with its graph.

    With A = diag(p) − p pᵀ, p = softmax(z), h = W₁ x + b₁ and w_j the columns of W₂:

        Tr ∇²ℓ = Tr A (‖relu(h)‖² + 1) + (‖x‖² + 1) Σ_j 1[h_j > 0] w_jᵀ A w_j

    Labels do not enter. Away from the kinks Tr H = Tr G.

    Args:
        weights: `0.weight`, `0.bias`, `2.weight` and `2.bias` of `nn.Sequential(nn.Linear, nn.ReLU, nn.Linear)`.
        inputs: [n, features].

    Example:
        >>> import torch
        >>> zeros = {"0.weight": (2, 1), "0.bias": (2,), "2.weight": (2, 2), "2.bias": (2,)}
        >>> weights = {name: torch.zeros(shape) for name, shape in zeros.items()}
        >>> float(two_layer_trace(weights, torch.ones(3, 1)))  # Tr A = ½, and nothing else moves the outputs
        0.5
    """
    first, second = weights["0.weight"], weights["2.weight"]
    hidden = functional.linear(inputs, first, weights["0.bias"])
    active = hidden.relu()
    p = functional.linear(active, second, weights["2.bias"]).softmax(-1)
    of_outputs = 1 - p.square().sum(-1)
    curvature = p @ second.square() - (p @ second).square()  # w_jᵀ A w_j, [n, hidden]
    through = ((hidden > 0) * curvature).sum(-1)
    traces: Tensor = of_outputs * (active.square().sum(-1) + 1) + (inputs.square().sum(-1) + 1) * through
    return traces.mean()
