"""Sharpness-aware minimisation: the gradient where the loss is highest nearby, to first order."""

import torch
from torch import nn

from common.optim.gradients import GradientRule, Loss


class SharpnessAware(GradientRule):
    """SAM: ∇L(w + ρ ∇L/‖∇L‖), at the cost of two gradients (Foret et al. 2021).

    Running statistics of normalisation layers are updated by the first of the two passes if `model` is given, else by
    both.
    """

    def __init__(
        self, optimiser: torch.optim.Optimizer, *, rho: float, members: bool = False, model: nn.Module | None = None
    ) -> None:
        """
        Args:
            rho: radius ρ of the neighbourhood, in the Euclidean norm over all parameters.
            members: the first axis of every parameter runs over members, each with a norm of its own.

        Raises:
            ValueError: a negative radius.
        """
        super().__init__(optimiser, model=model)
        if rho < 0:
            raise ValueError("rho must be 0 or more.")
        self.rho, self.members = rho, members

    def _gradients(self, loss: Loss) -> torch.Tensor:
        self._backward(loss, 1.0)
        with torch.no_grad():
            ascent = self._ascent()
        self.optimiser.zero_grad()
        with self._displaced(1.0, ascent):
            return self._backward(loss, 1.0)

    def _ascent(self) -> list[torch.Tensor]:
        """ρ ∇L/‖∇L‖, 0 where the gradient vanishes."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        rows = [gradient.flatten(1) if self.members else gradient.reshape(1, -1) for gradient in gradients]
        norm = sum((row.square().sum(1) for row in rows), torch.zeros(len(rows[0])).to(rows[0])).sqrt()
        scale = torch.where(norm > 0, self.rho / norm.clamp(min=torch.finfo(norm.dtype).tiny), 0.0)
        return [(row * scale[:, None]).view_as(grad) for row, grad in zip(rows, gradients, strict=True)]
