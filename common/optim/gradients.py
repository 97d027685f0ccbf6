"""What all rules share: passes at other weights, exact return, counted cost, a state for checkpoints."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from common.complaints import explained

Loss = Callable[[], torch.Tensor]
"""A forward pass: the loss of the current mini-batch at the current weights, a scalar with its graph."""

FORWARD = 1 / 3
"""Cost of a forward pass without gradients, in gradients."""


class GradientRule:
    """A gradient in place of ∇L, for any optimiser of PyTorch.

    `step(loss)` fills the parameters' gradients by this rule and lets the optimiser step. The weights that the
    optimiser sees are to the bit those before the step.

    Attributes:
        optimiser: takes the step; its learning rates may be changed at any time.
        gradient_evaluations: work so far, in gradients of one mini-batch.
    """

    def __init__(self, optimiser: torch.optim.Optimizer, *, model: nn.Module | None = None) -> None:
        """
        Args:
            model: the network, if it has normalisation layers with running statistics: these are then updated at
                the unperturbed weights only.

        Raises:
            ValueError: parameters instead of an optimiser.
        """
        if not hasattr(optimiser, "param_groups"):
            raise ValueError(
                f"{type(self).__name__} takes an optimiser of the parameters, such as "
                f"torch.optim.SGD(model.parameters(), lr=0.1), not a {type(optimiser).__name__}."
            )
        self.optimiser = optimiser
        self.gradient_evaluations = 0.0
        self.parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        self.statistics = _running_statistics(model)

    def step(self, loss: Loss) -> torch.Tensor:
        """One step; returns the mean of the losses at the weights where gradients were taken.

        Args:
            loss: called once for each gradient; it must use the same mini-batch every time and call no `backward`.
        """
        value = self.fill(loss)
        self.optimiser.step()
        return value

    def fill(self, loss: Loss) -> torch.Tensor:
        """Set the parameters' gradients by this rule without a step; returns what `step` returns."""
        self.optimiser.zero_grad()
        return self._gradients(loss)

    def _gradients(self, loss: Loss) -> torch.Tensor:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything mutable: the optimiser's state, the cost so far, the noise."""
        return {"optimiser": self.optimiser.state_dict(), "gradient_evaluations": self.gradient_evaluations}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.optimiser.load_state_dict(state["optimiser"])
        self.gradient_evaluations = state["gradient_evaluations"]

    def _backward(self, loss: Loss, weight: float) -> torch.Tensor:
        """Add `weight` times the gradient at the current weights; returns the loss.

        Raises:
            ValueError: it has no gradient, or `loss` has taken it already.
        """
        value = loss()
        with explained(lambda: "`loss` must return the loss with its graph and call no `backward`"):
            torch.autograd.backward(value, torch.full_like(value, weight))
        self.gradient_evaluations += 1
        return value.detach()

    @torch.no_grad()
    def _update_statistics(self, loss: Loss) -> None:
        """Where no gradient is taken at the unperturbed weights, a forward pass there keeps the statistics current."""
        if self.statistics:
            loss()
            self.gradient_evaluations += FORWARD

    @contextmanager
    def _displaced(self, sign: float, direction: Sequence[torch.Tensor]) -> Iterator[None]:
        """Within: weights w + sign · direction; afterwards w and the running statistics again, to the bit."""
        kept = [tensor.detach().clone() for tensor in (*self.parameters, *self.statistics)]
        with torch.no_grad():
            for parameter, way in zip(self.parameters, direction, strict=True):
                parameter.add_(way, alpha=sign)
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, before in zip((*self.parameters, *self.statistics), kept, strict=True):
                    tensor.copy_(before)


class PlainGradient(GradientRule):
    """∇L itself: what the other rules are compared with, at the cost of one gradient."""

    def _gradients(self, loss: Loss) -> torch.Tensor:
        return self._backward(loss, 1.0)


def _running_statistics(model: nn.Module | None) -> list[torch.Tensor]:
    """Buffers that a training pass of normalisation layers changes."""
    if model is None:
        return []
    return [
        buffer
        for module in model.modules()
        if getattr(module, "track_running_stats", False)
        for buffer in module.buffers(recurse=False)
    ]
