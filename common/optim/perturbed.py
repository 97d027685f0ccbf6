"""Perturbed OPT: gradients at weights shaken as far as their curvature allows (Wang et al. 2018, Algorithm 1)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from common.optim.gradients import GradientRule, Loss


@dataclass(frozen=True)
class PerturbationRule:
    """The constants of Algorithm 1, with its defaults where it has any.

    Attributes:
        eta: η, which divides the curvature's part in the level.
        gamma, epsilon: of the neighbourhood κ = γ/log(1 + epoch) |w| + ε.
        beta1: decay of the average of squared gradients.
        beta2: size of a gradient from which on its weight stays unperturbed.
    """

    eta: float
    gamma: float = 0.1
    epsilon: float = 1e-5
    beta1: float = 0.999
    beta2: float = 0.1


@dataclass(frozen=True)
class Levels:
    """Half widths of the perturbation, and what decided them; coordinates of all parameters in one row.

    Attributes:
        sigma: σ [parameters].
        kappa: its upper limit κ [parameters].
        open: where the gradient is small enough for a perturbation [parameters], truth values.
    """

    sigma: torch.Tensor
    kappa: torch.Tensor
    open: torch.Tensor

    @property
    def open_share(self) -> float:
        """Share of coordinates that are perturbed."""
        return float(self.open.double().mean())

    @property
    def curvature_share(self) -> float:
        """Share of coordinates that are perturbed by less than κ, because of their curvature."""
        return float((self.open & (self.sigma < self.kappa)).double().mean())


class PerturbedOpt(GradientRule):
    """g = ∇L(w + u), u_i ~ U(−σ_i, σ_i), at the cost of one gradient (Wang et al. 2018, Algorithm 1).

    In step t, with the epoch counted from 1:

        κ_i = γ/log(1 + epoch) |w_{t,i}| + ε                                                      (line 7)
        σ_i = min(1/(log(1 + epoch) √(η (h_{t,i} + ρ_i κ_i))), κ_i) · 1[|g_{t,i}| < β₂]           (line 8)
        h_{t+1} = β₁ h_t + (1 − β₁) g_{t+1}²,  g_{t+1} = ∇L(w_t + u_t)                            (lines 10, 11)

    Line 6 prints ρ_i = |h_{t+1,i} − h_{t,i}| / ‖w_{t+1} − w_t‖, of which neither h_{t+1} nor w_{t+1} is known then.
    Here everything lags by one step: ρ_i = |h_{t,i} − h_{t−1,i}| / ‖w_t − w_{t−1}‖, and g_t is the gradient of the
    step before. The first step (t = 0) is not perturbed. Where h and ρ vanish the level is κ; where the weights did not
    move and h did, it is 0.

    Running statistics of normalisation layers follow the perturbed passes, unless `model` is given: then a forward pass
    at w keeps them, a third of a gradient more.
    """

    def __init__(
        self,
        optimiser: torch.optim.Optimizer,
        rule: PerturbationRule,
        *,
        steps_per_epoch: int,
        generator: torch.Generator,
        model: nn.Module | None = None,
    ) -> None:
        """
        Args:
            steps_per_epoch: mini-batches an epoch; they tell which epoch a step is in.
            generator: of the perturbations, on the CPU or on the parameters' device; goes into the state.

        Raises:
            ValueError: a constant out of its range, or fewer than one step an epoch.
        """
        super().__init__(optimiser, model=model)
        if min(rule.eta, rule.epsilon) <= 0 or rule.gamma < 0 or not 0 <= rule.beta1 < 1 or rule.beta2 < 0:
            raise ValueError("eta and epsilon must be positive, gamma and beta2 0 or more, and beta1 in [0, 1).")
        if steps_per_epoch < 1:
            raise ValueError("steps_per_epoch must be 1 or more.")
        self.rule, self.steps_per_epoch, self.generator, self.steps = rule, steps_per_epoch, generator, 0
        self._before = _row(self.parameters)
        self._squares, self._change, self._last_gradient = (torch.zeros_like(self._before) for _ in range(3))

    @property
    def epoch(self) -> int:
        """Of the next step, from 1."""
        return 1 + self.steps // self.steps_per_epoch

    @torch.no_grad()
    def levels(self) -> Levels:
        """σ of the next step; 0 everywhere before the first."""
        weights, shrink = _row(self.parameters), math.log(1 + self.epoch)
        kappa = self.rule.gamma / shrink * weights.abs() + self.rule.epsilon
        if self.steps == 0:
            return Levels(torch.zeros_like(kappa), kappa, torch.zeros_like(kappa, dtype=torch.bool))
        rho = torch.where(self._change > 0, self._change / (weights - self._before).norm(), 0.0)
        curvature = (self.rule.eta * (self._squares + rho * kappa)).rsqrt() / shrink
        small = self._last_gradient.abs() < self.rule.beta2
        return Levels(torch.minimum(curvature, kappa) * small, kappa, small)

    def _gradients(self, loss: Loss) -> torch.Tensor:
        self._update_statistics(loss)
        direction = self._direction(self.levels().sigma)
        self._before = _row(self.parameters)
        sizes = [parameter.numel() for parameter in self.parameters]
        parts = zip(direction.split(sizes), self.parameters, strict=True)
        with self._displaced(1.0, [part.view(parameter.shape) for part, parameter in parts]):
            value = self._backward(loss, 1.0)
        self._remember()
        return value

    def _direction(self, sigma: torch.Tensor) -> torch.Tensor:
        """u ~ U(−σ, σ)."""
        uniform = torch.rand(len(sigma), generator=self.generator, device=self.generator.device).to(sigma)
        return uniform.mul_(2).sub_(1).mul_(sigma)

    @torch.no_grad()
    def _remember(self) -> None:
        """h_{t+1} from g_{t+1}, and |h_{t+1} − h_t|, for the step that comes."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        gradient = _row(gradients)
        squares = self.rule.beta1 * self._squares + (1 - self.rule.beta1) * gradient.square()
        self._change = (squares - self._squares).abs()
        self._squares, self._last_gradient = squares, gradient
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "steps": self.steps,
            "before": self._before,
            "squares": self._squares,
            "change": self._change,
            "last_gradient": self._last_gradient,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.steps = state["steps"]
        self.generator.set_state(state["generator"])
        self._before, self._squares, self._change, self._last_gradient = (
            state[name].to(self._before, copy=True) for name in ("before", "squares", "change", "last_gradient")
        )


class IsotropicOpt(PerturbedOpt):
    """The control of `PerturbedOpt`: g = ∇L(w + v) with v uniform on the sphere of radius ‖u‖, u as in Algorithm 1.

    h, ρ and the gate are followed along this rule's own steps, so that each step has the total noise that Algorithm 1
    would have put in at the same place, but spread evenly over all coordinates.
    """

    def _direction(self, sigma: torch.Tensor) -> torch.Tensor:
        length = super()._direction(sigma).norm()
        normal = torch.randn(len(sigma), generator=self.generator, device=self.generator.device).to(sigma)
        return normal.mul_(length / normal.norm())


@torch.no_grad()
def _row(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A copy of all coordinates in one row."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
