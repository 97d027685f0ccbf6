"""Training of one convolutional network by a rule that takes its gradients elsewhere than at the weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from common.optim.gradients import GradientRule
from common.training.images import ImageBatches
from common.training.residual import Recipe, ResidualTraining


class RuleTraining(ResidualTraining):
    """`ResidualTraining` whose steps are those of a gradient rule of `common.optim`; the objective is cross-entropy.

    Attributes:
        rule: takes the steps; its state goes into the checkpoint.
        step_error: share of wrong predictions over the last epoch's mini-batches, in training mode, at the weights
            where gradients were taken.

    Args:
        model, batches, recipe, source: as for `ResidualTraining`; the recipe's momentum and decay are not used.
        optimiser: made from the parameters; its learning rate follows the schedule.
        rule: made from the optimiser.
    """

    def __init__(
        self,
        model: nn.Module,
        batches: ImageBatches,
        recipe: Recipe,
        source: torch.Generator,
        *,
        optimiser: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        rule: Callable[[torch.optim.Optimizer], GradientRule],
    ) -> None:
        super().__init__(model, batches, recipe, source, optimiser=optimiser)
        self.rule = rule(self.optimiser)
        self.step_error = 1.0

    def one_epoch(self, told: Callable[[float], None] | None = None) -> float:
        """Every image once; returns the mean loss over the steps (NaN where it is no longer finite).

        Args:
            told: see `ResidualTraining.one_epoch`.
        """
        factor = self.recipe.schedule(self.epoch / self.recipe.epochs)
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self.model.train()
        values, wrong = [], []
        for inputs, targets in self.batches.epoch(self.recipe.batch_size, self.source):
            outputs: list[torch.Tensor] = []
            values.append(self.rule.step(lambda: self._loss(inputs, targets, outputs)))  # noqa: B023
            wrong.append((outputs[-1].argmax(1) != targets).sum())
            self._tell(told, len(values))
        self.epoch += 1
        mean = float(torch.stack(values).mean())
        self.lost = not torch.isfinite(torch.tensor(mean)).item()
        self.step_error = float(torch.stack(wrong).sum()) / len(self.batches)
        return mean

    def _loss(self, inputs: torch.Tensor, targets: torch.Tensor, outputs: list[torch.Tensor]) -> torch.Tensor:
        with self._precision():
            logits = self._forward(inputs)
            loss = functional.cross_entropy(logits, targets)
        outputs.append(logits.detach())
        return loss

    def state(self) -> dict[str, Any]:
        """As for `ResidualTraining`, with the rule's state in place of the optimiser's, which it holds."""
        return {**super().state(), "optimiser": self.rule.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore({**state, "optimiser": state["optimiser"]["optimiser"]})
        self.rule.load_state_dict(state["optimiser"])
