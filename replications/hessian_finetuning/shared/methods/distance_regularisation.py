"""Distance-based regularisation."""

import torch

from .method import Method, Weights


class DistanceRegularisation(Method):
    """After each step projects every weight matrix onto the ball ‖W_i − W_i⁽⁰⁾‖_F ≤ D (Gouk et al. 2021).

    Strength: D, the same for all layers. Vectors (biases, gains of normalisations) are free.
    """

    @torch.no_grad()
    def after_step(self, weights: Weights, start: Weights) -> None:
        for name, tensor in weights.items():
            if tensor.ndim > 2:
                moved = tensor - start[name]
                lengths = moved.flatten(1).norm(dim=1)
                factor = (self.strength / lengths.clamp(min=self.strength)).view(-1, *(1,) * (tensor.ndim - 1))
                tensor.copy_(torch.where(factor < 1, start[name] + factor * moved, tensor))
