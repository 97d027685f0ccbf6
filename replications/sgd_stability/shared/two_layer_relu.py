"""Two-layer ReLU networks f(x) = Σ_j a_j σ(w_jᵀx), batched: a [..., m], w [..., m, d], x [..., n, d].

A bias is a coordinate of x that is always 1. σ' is 1 where w_jᵀx > 0.
"""

from typing import NamedTuple

import torch


class Network(NamedTuple):
    """Outer weights a [..., m] and inner weights w [..., m, d]."""

    outer: torch.Tensor
    inner: torch.Tensor

    def rescaled(self, factor: float | torch.Tensor) -> "Network":
        """The same function, (a/c, c w); c a number or [..., m]."""
        factor = torch.as_tensor(factor, dtype=self.outer.dtype)
        return Network(self.outer / factor, self.inner * factor[..., None])

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """f [..., n]."""
        values: torch.Tensor = (_preactivations(self, inputs).relu() @ self.outer[..., None])[..., 0]
        return values

    def gradients(self, inputs: torch.Tensor) -> torch.Tensor:
        """∇_θ f(x_i) [..., n, m + m d]: by a, then by w."""
        before = _preactivations(self, inputs)
        active = (before > 0).to(before.dtype) * self.outer[..., None, :]
        inner = active[..., None] * inputs[..., None, :]
        return torch.cat([before.relu(), inner.flatten(-2)], -1)

    def loss_gradients(self, inputs: torch.Tensor, targets: torch.Tensor) -> "Network":
        """Of mean (f − y)² by a and by w, for targets [..., n]."""
        before = _preactivations(self, inputs)
        values = before.relu()
        error = 2 * ((values @ self.outer[..., None])[..., 0] - targets) / targets.shape[-1]
        back = (before > 0) * (error[..., None] * self.outer[..., None, :])
        return Network((error[..., None, :] @ values)[..., 0, :], back.transpose(-2, -1) @ inputs)

    def squared_norm(self, weight: float) -> torch.Tensor:
        """Σ_j (‖w_j‖² + q a_j²) [...]: the weighted ℓ₂ norm of Wu 2025, squared (D22)."""
        return self.inner.square().sum((-2, -1)) + weight * self.outer.square().sum(-1)

    def path_norm(self) -> torch.Tensor:
        """Σ_j |a_j| ‖w_j‖ [...]."""
        value: torch.Tensor = (self.outer.abs() * self.inner.norm(dim=-1)).sum(-1)
        return value


def _preactivations(network: Network, inputs: torch.Tensor) -> torch.Tensor:
    return inputs @ network.inner.transpose(-2, -1)


def trace_of_g(network: Network, inputs: torch.Tensor) -> torch.Tensor:
    """Tr G = mean ‖∇f(x_i)‖² [k] = mean Σ_j (σ(w_jᵀx_i)² + a_j² [w_jᵀx_i > 0] ‖x_i‖²), for inputs [k, n, d]."""
    before = inputs @ network.inner.transpose(1, 2)
    by_inner = ((before > 0).to(before.dtype) @ network.outer.square()[..., None])[..., 0] * inputs.square().sum(2)
    trace: torch.Tensor = (before.relu_().square_().sum(2) + by_inner).mean(1)
    return trace


def sphere(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Points uniform on the sphere of radius √d, float64; d is the last of `shape`."""
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    points: torch.Tensor = drawn / drawn.norm(dim=-1, keepdim=True) * shape[-1] ** 0.5
    return points
