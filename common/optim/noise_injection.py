"""Noise injection: gradients at randomly perturbed weights, on both sides or on one."""

from typing import Any

import torch
from torch import nn

from common.optim.gradients import GradientRule, Loss
from common.optim.noise import GaussianNoise


class _Perturbed(GradientRule):
    """Mean of gradients at w + s U over draws U and signs s."""

    signs: tuple[float, ...]
    also_plain = False
    """Whether the rule takes ∇L(w) itself as well, which keeps the running statistics current."""

    def __init__(
        self,
        optimiser: torch.optim.Optimizer,
        noise: GaussianNoise,
        *,
        draws: int = 1,
        clean_weight: float = 0.0,
        model: nn.Module | None = None,
    ) -> None:
        """
        Args:
            noise: draws U in the shapes of the optimiser's parameters.
            draws: k, perturbations a step.
            clean_weight: share of ∇L(w) itself in the gradient; the noisy mean has the rest.

        Raises:
            ValueError: fewer than one draw, a share outside [0, 1), or noise of other parameters.
        """
        super().__init__(optimiser, model=model)
        if draws < 1 or not 0 <= clean_weight < 1:
            raise ValueError("draws must be 1 or more and clean_weight in [0, 1).")
        if [id(parameter) for parameter in noise.parameters] != [id(parameter) for parameter in self.parameters]:
            raise ValueError("the noise must be that of the optimiser's parameters, in their order.")
        self.noise, self.draws, self.clean_weight = noise, draws, clean_weight

    def _gradients(self, loss: Loss) -> torch.Tensor:
        values = []
        if self.clean_weight:
            values.append(self._backward(loss, self.clean_weight))
        elif not self.also_plain:
            self._update_statistics(loss)
        share = (1 - self.clean_weight) / (self.draws * len(self.signs))
        for _ in range(self.draws):
            direction = self.noise.draw()
            for sign in self.signs:
                with self._displaced(sign, direction):
                    values.append(self._backward(loss, share))
        return torch.stack(values).mean(0)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "noise": self.noise.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.noise.restore(state["noise"])


class NoiseStability(_Perturbed):
    """NSO: (1/2k) Σ_j [∇L(w + U_j) + ∇L(w − U_j)], U_j ~ N(0, σ² I), at the cost of 2k gradients (Zhang et al. 2024).

    In expectation this is ∇ E L(w + U) = ∇[L + ½ σ² Tr H] + O(σ⁴). The odd orders cancel within each pair of signs:
    on a quadratic it is ∇L exactly, and in general its variance falls as σ⁴.
    """

    signs = (1.0, -1.0)


class WeightPerturbation(_Perturbed):
    """WP-SGD: (1/k) Σ_j ∇L(w + U_j), U_j ~ N(0, σ² I), at the cost of k gradients.

    The expectation is that of `NoiseStability`, the variance falls only as σ²: the Hessian times the noise stays.
    """

    signs = (1.0,)


class EqualGradientNoise(NoiseStability):
    """The control of `NoiseStability`: ∇L(w) + ξ with ‖ξ‖ = ‖g − ∇L(w)‖, g the gradient of that rule at the same w.

    The direction of ξ is uniform on the sphere: each step is as far from ∇L as NSO's would be, and the direction knows
    nothing of the curvature. Cost: 2k + 1 gradients.
    """

    also_plain = True

    def _gradients(self, loss: Loss) -> torch.Tensor:
        super()._gradients(loss)
        perturbed = self._present()
        self.optimiser.zero_grad()
        value = self._backward(loss, 1.0)
        plain, direction = self._present(), self.noise.draw()
        apart = [a - b for a, b in zip(perturbed, plain, strict=True)]
        scale = self.noise.lengths(apart) / self.noise.lengths(direction).clamp(min=torch.finfo(plain[0].dtype).tiny)
        for parameter, gradient, way in zip(self.parameters, plain, direction, strict=True):
            parameter.grad = gradient + way * scale.view(*scale.shape, *[1] * (way.dim() - scale.dim()))
        return value

    def _present(self) -> list[torch.Tensor]:
        """The gradients as they are set now, zero where there is none."""
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
