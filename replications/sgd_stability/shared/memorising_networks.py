"""The flattest networks that interpolate y = x₁x₂ on {±1}^d: memorising and generalising, as printed and corrected.

Networks are those of `two_layer_relu` with a last coordinate 1 of the input as bias. By Cauchy–Schwarz every network
that interpolates labels ±1 has Σ‖∇f(x_i)‖²/n ≥ 2√(d + 1) (Wu 2025, proof of Theorem 4, Step 2), and the Hessian of the
mean squared error twice that trace.
"""

import torch

from .two_layer_relu import Network


def parity_problem(count: int, dimension: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct points of {±1}^d with a last coordinate 1 [n, d + 1], and y = x₁x₂ [n]; float64.

    Raises:
        ValueError: there are not that many points.
    """
    if dimension < 60 and count > 2**dimension:
        raise ValueError(f"{{±1}}^{dimension} has fewer than {count} points.")
    points = torch.empty(0, dimension, dtype=torch.float64)
    while len(points) < count:
        drawn = 2 * torch.randint(0, 2, (count, dimension), generator=generator).double() - 1
        both = torch.cat([points, drawn])
        _, first = torch.unique(both, dim=0, return_inverse=True)
        seen: set[int] = set()
        keep = [not (key in seen or seen.add(key)) for key in first.tolist()]  # type: ignore[func-returns-value]
        points = both[torch.tensor(keep)][:count]
    return torch.cat([points, torch.ones(count, 1, dtype=torch.float64)], 1), points[:, 0] * points[:, 1]


def least_trace(inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """The least Hessian trace of the mean squared error at interpolation, (4/n) Σ ‖(x, 1)‖ |y|."""
    return float(4 * (inputs.norm(dim=1) * targets.abs()).mean())


def hessian_trace(network: Network, inputs: torch.Tensor) -> float:
    """(2/n) Σ ‖∇f(x_i)‖²: the trace of the Hessian of the mean squared error where the network interpolates."""
    before = inputs @ network.inner.T
    inner = ((before > 0) * network.outer.square()).sum(1) * inputs.square().sum(1)
    return float(2 * (before.relu().square().sum(1) + inner).mean())


def printed_memorising(inputs: torch.Tensor, targets: torch.Tensor) -> Network:
    """w_j = x_j/‖x_j‖, b_j = −½√d, a_j = y_j/(½√d) (Wu 2025, proof of Theorem 4, Step 1)."""
    points = inputs[:, :-1]
    half = 0.5 * points.shape[1] ** 0.5
    bias = torch.full((len(points), 1), -half, dtype=torch.float64)
    return Network(targets / half, torch.cat([points / points.norm(dim=1, keepdim=True), bias], 1))


def corrected_memorising(inputs: torch.Tensor, targets: torch.Tensor) -> Network:
    """w_j = r x_j, b_j = −(d − 1) r, a_j = y_j/r with r = (d + 1)^¼ (ours, D25).

    Other points have x_iᵀx_j ≤ d − 2, so each activates its own neuron alone, with preactivation r.
    """
    points = inputs[:, :-1]
    dimension = points.shape[1]
    radius = (dimension + 1) ** 0.25
    bias = torch.full((len(points), 1), -(dimension - 1) * radius, dtype=torch.float64)
    return Network(targets / radius, torch.cat([radius * points, bias], 1))


def generalising(dimension: int, radius: float) -> Network:
    """Four neurons ±1/r σ(r (±x₁ ± x₂) − r), which give x₁x₂ on all of {±1}^d (Wen, Li and Ma 2023, eq. 5)."""
    signs = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    inner = torch.zeros(4, dimension + 1, dtype=torch.float64)
    inner[:, :2], inner[:, -1] = radius * signs, -radius
    return Network(signs.prod(1) / radius, inner)


def violating_pairs(inputs: torch.Tensor) -> int:
    """Pairs of points that activate each other's neurons in the printed construction: x_iᵀx_j > d/2."""
    points = inputs[:, :-1]
    close = points @ points.T > points.shape[1] / 2
    return int(close.triu(1).sum())
