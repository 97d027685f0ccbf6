"""Full-batch training of all seeds of an arm, with λ₁ followed along the way."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from common.experiments import RunContext
from common.hessian import Problem, sharpness
from common.models import initialise_uniform
from common.training import ModuleEnsemble
from common.training.input_span import join_first_layer, split_first_layer

from .images import training_set
from .setting import Setting

LOST = 1e4
"""A loss beyond which a run has diverged."""


class Training:
    """The networks of all seeds, the rule's velocities and the eigenvectors found last.

    Attributes:
        step: taken so far.
        sharpness: λ₁ of each member at its last measurement.
        lost: members whose loss was beyond `LOST` or not finite.
    """

    def __init__(self, runs: Sequence[Setting], context: RunContext) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        inputs, targets, basis = training_set(self.setting, context)
        self.data = inputs, targets
        rank, run = inputs.shape[1], self.setting
        rows = [_initial(run, basis, context.generator(one, "init")) for one in runs]
        self.ensemble = ModuleEnsemble(
            lambda: network(rank, run.width, run.classes), torch.stack(rows).to(context.device), loss=run.objective
        )
        self.rule = torch.optim.SGD(
            [self.ensemble.weights], run.learning_rate, momentum=run.momentum, nesterov=run.rule == "nesterov"
        )
        self.vectors = torch.zeros_like(self.ensemble.weights)
        self.step, self.lost = 0, [False] * len(runs)
        self.sharpness = [float("nan")] * len(runs)

    def advance(self, steps: int) -> None:
        """So many steps of every member; those that diverge are reported."""
        for _ in range(steps):
            losses = self.ensemble.losses_and_gradients(*self.data)
            self._report(losses)
            self.ensemble.weights.grad = self.ensemble.gradients
            self.rule.step()
            self.step += 1

    def _report(self, losses: torch.Tensor) -> None:
        for member, loss in enumerate(losses.tolist()):
            if not loss <= LOST and not self.lost[member]:
                self.lost[member] = True
                self.context.diverged(self.runs[member], f"loss {loss:.3g} at step {self.step}")

    def measure(self) -> None:
        """Record loss and λ₁ of every member that is still there."""
        losses = self.ensemble.losses(*self.data).tolist()
        for member, run in enumerate(self.runs):
            if self.lost[member]:
                continue
            start = self.vectors[member] if bool(self.vectors[member].any()) else None
            found = sharpness(
                self.problem(member),
                relative_error=run.relative_error,
                products=run.products,
                start=start,
                seed=run.seed,
            )
            self.vectors[member], self.sharpness[member] = found.vector, found.estimate.value
            self.context.record(
                run,
                kind="along",
                step=self.step,
                loss=losses[member],
                sharpness=found.estimate.value,
                sharpness_error=found.estimate.error,
                ratio=found.estimate.value / run.edge,
            )

    def follow(self) -> None:
        """Train to the end with measurements on the way, from wherever the last call was stopped."""
        while self.step < self.setting.steps:
            if self.step == 0:
                self.measure()
            self.advance(min(self.setting.measure_every, self.setting.steps - self.step))
            self.measure()
            self.context.progress(self.step, self.setting.steps)
            self.context.checkpoint(self.state())

    def problem(self, member: int) -> Problem:
        """The member's loss at its present weights."""
        loss = nn.MSELoss() if self.setting.objective == "mse" else nn.CrossEntropyLoss()
        return Problem(self.ensemble.module(member), loss, self.data)

    def state(self) -> dict[str, Any]:
        """What must be kept to go on later."""
        return {
            "weights": self.ensemble.weights,
            "rule": self.rule.state_dict(),
            "vectors": self.vectors,
            "step": self.step,
            "sharpness": self.sharpness,
            "lost": self.lost,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Continue from `state()`."""
        if state is None:
            return
        self.ensemble.weights.copy_(state["weights"])
        self.rule.load_state_dict(state["rule"])
        self.vectors.copy_(state["vectors"])
        self.step, self.sharpness, self.lost = state["step"], list(state["sharpness"]), list(state["lost"])


def network(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of tanh units."""
    return nn.Sequential(
        nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, outputs)
    )


@torch.no_grad()
def _initial(run: Setting, basis: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Parameters [P] of a network on all features, drawn as PyTorch does, in the coordinates of `basis`."""
    model = network(len(basis), run.width, run.classes)
    initialise_uniform(model, generator)
    row = nn.utils.parameters_to_vector(model.parameters())[None]
    first, others = split_first_layer(row, len(basis), run.width)
    return join_first_layer(first @ basis, others)[0]
