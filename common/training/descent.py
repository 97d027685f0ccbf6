"""(Stochastic) gradient descent of an ensemble: each member with its own learning rate, batches and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from common.training.fully_connected import FullyConnectedEnsemble
from common.training.modules import ModuleEnsemble
from common.training.momentum import State

Order = Literal["epochs", "independent"]
TRAINING, STOPPED, DIVERGED = 0, 1, 2
BLOCK = 64
"""Batches that are drawn at a time."""


class Batches:
    """Indices of the next batch of each member, each from the member's own generator.

    A member's batches do not depend on which others there are.

    Args:
        count: number of examples n.
        batch_size: B, at most n.
        generators: one a member, on the CPU.
        order: "epochs": a random permutation of all examples is cut into batches, the rest of n mod B examples is
            left out of that epoch; "independent": each batch is drawn without replacement from all examples,
            independently of the others, as in the theory of linear stability.

    Raises:
        ValueError: a batch that is not between 1 and `count`.
    """

    def __init__(
        self, count: int, batch_size: int, generators: Sequence[torch.Generator], *, order: Order = "epochs"
    ) -> None:
        if not 1 <= batch_size <= count:
            raise ValueError(f"batches of {batch_size} from {count} examples: the size must be 1 to {count}.")
        self.count, self.batch_size, self.order = count, batch_size, order
        self.generators = list(generators)
        self._drawn = torch.empty(len(self.generators), 0, batch_size, dtype=torch.int64)
        self._used = 0

    def next(self, members: Sequence[int]) -> torch.Tensor:
        """[len(members), B]; all members move on to the next batch, those not asked for too."""
        if self._used == self._drawn.shape[1]:
            self._drawn, self._used = torch.stack([self._draw(generator) for generator in self.generators]), 0
        self._used += 1
        return self._drawn[list(members), self._used - 1]

    def _draw(self, generator: torch.Generator) -> torch.Tensor:
        """Some batches [·, B], as many at each call."""
        if self.order == "independent":
            keys = torch.rand(BLOCK, self.count, generator=generator, dtype=torch.float64)
            return keys.topk(self.batch_size, dim=1, sorted=False).indices
        in_epoch = self.count // self.batch_size
        epochs = [
            torch.randperm(self.count, generator=generator)[: in_epoch * self.batch_size]
            for _ in range(max(1, BLOCK // in_epoch))
        ]
        return torch.cat(epochs).view(-1, self.batch_size)

    def state(self) -> State:
        """What must be kept to go on later."""
        generators = torch.stack([generator.get_state() for generator in self.generators])
        return {"generators": generators, "drawn": self._drawn, "used": self._used}

    def restore(self, state: State) -> None:
        """Continue from `state()`."""
        for generator, kept in zip(self.generators, torch.as_tensor(state["generators"]), strict=True):
            generator.set_state(kept.clone())  # a row that is a view of the others would not do
        self._drawn, self._used = torch.as_tensor(state["drawn"]), int(state["used"])


class Descent:
    """Trains an ensemble by plain gradient descent, full-batch (`batches` None) or stochastic.

    At every `check_every`-th step the loss over all examples is compared with `stopping_loss`: a member at or below it
    stops, one whose loss is not finite or above `diverged_above` has diverged. Either way its weights stay as they are
    and it costs nothing any more; the others go on as if it had never been there.

    Attributes:
        ensemble: all members; its weights are up to date after each `advance`.
        steps: taken by each member [members], int64.
        losses: over all examples, at each member's last check [members].
        status: TRAINING, STOPPED or DIVERGED of each member [members].

    Args:
        ensemble: trained in place.
        inputs, targets: all examples [n, …], shared by the members, or [members, n, …].
        learning_rates: one for all, or [members].
        batches: the order of examples; None for the full batch.
        stopping_loss: 0 to never stop.
        check_every: steps between checks of a stochastic run; full-batch runs know their loss at every step.
        diverged_above: a loss beyond which a member is given up.

    Example:
        >>> ensemble = FullyConnectedEnsemble.drawn((2, 16, 1), [torch.Generator().manual_seed(s) for s in range(3)])
        >>> descent = Descent(ensemble, torch.eye(2), torch.ones(2, 1), learning_rates=0.1, stopping_loss=1e-3)
        >>> while descent.running:
        ...     descent.advance(100)
        >>> bool((descent.losses <= 1e-3).all())
        True
    """

    def __init__(
        self,
        ensemble: FullyConnectedEnsemble | ModuleEnsemble,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        *,
        learning_rates: float | Sequence[float] | torch.Tensor,
        batches: Batches | None = None,
        stopping_loss: float = 0.0,
        check_every: int = 50,
        diverged_above: float = 1e4,
    ) -> None:
        self.ensemble, self.batches = ensemble, batches
        self.inputs, self.targets = inputs, targets
        like = ensemble.weights
        self.learning_rates = torch.as_tensor(learning_rates, dtype=like.dtype).to(like.device).expand(len(ensemble))
        self.stopping_loss, self.check_every, self.diverged_above = stopping_loss, check_every, diverged_above
        self.steps = torch.zeros(len(ensemble), dtype=torch.int64)
        self.losses = torch.full((len(ensemble),), torch.nan, dtype=torch.float64)
        self.status = torch.full((len(ensemble),), TRAINING)
        self._taken, self._checked = 0, -1
        self._gather()

    @property
    def running(self) -> list[int]:
        """Members that are still trained."""
        return torch.nonzero(self.status == TRAINING).flatten().tolist()

    def advance(self, steps: int) -> None:
        """Up to `steps` steps of each member that is still trained, then a check of the loss."""
        for _ in range(steps):
            if not self._alive:
                return
            if self.batches is None:
                self._full_step()
                continue
            if self._taken % self.check_every == 0 and self._taken != self._checked:
                self._check(self._work.losses(*self._all_examples()))
                if not self._alive:
                    return
            chosen = self.batches.next(self._alive).to(self.ensemble.weights.device)
            self._work.sgd_step(*self._examples(chosen), self._rates)
            self._taken += 1
            self.steps[self._alive] += 1
        if self._alive:
            self._check(self._work.losses(*self._all_examples()))
        self._write_back()

    def state(self) -> State:
        """What must be kept to go on later; the order of batches included."""
        self._write_back()
        state: State = {
            "weights": self.ensemble.weights,
            "steps": self.steps,
            "losses": self.losses,
            "status": self.status,
            "taken": self._taken,
            "checked": self._checked,
        }
        batches = self.batches.state() if self.batches else {}
        return state | {f"batches_{key}": value for key, value in batches.items()}

    def restore(self, state: State) -> None:
        """Continue from `state()`."""
        self.ensemble.weights.copy_(torch.as_tensor(state["weights"]))
        self.steps, self.losses, self.status = (
            torch.as_tensor(state[name]).clone() for name in ("steps", "losses", "status")
        )
        if self.batches:
            self.batches.restore({k.removeprefix("batches_"): v for k, v in state.items() if k.startswith("batches_")})
        self._gather()
        self._taken, self._checked = int(state["taken"]), int(state["checked"])

    def _full_step(self) -> None:
        """A full-batch step of the members whose loss before it says that they go on."""
        losses = self._work.losses_and_gradients(*self._all_examples())
        stays = self._check(losses)
        if stays is not None:  # the gradients of those that go on
            self._work.gradients.copy_(stays)
        if self._alive:
            self._work.weights.addcmul_(self._work.gradients, self._rates[:, None], value=-1)
            self._taken += 1
            self.steps[self._alive] += 1

    def _check(self, losses: torch.Tensor) -> torch.Tensor | None:
        """Note the losses; where members end, go on without them and return the gradients of the others."""
        values = losses.double().cpu()
        self.losses[self._alive], self._checked = values, self._taken
        lost = ~(values <= self.diverged_above)
        ended = lost | (values <= self.stopping_loss)
        if not bool(ended.any()):
            return None
        self._write_back()
        self.status[self._alive] = torch.where(lost, DIVERGED, torch.where(ended, STOPPED, TRAINING))
        gradients = self._work.gradients[(~ended).to(losses.device)]
        self._gather()
        return gradients

    def _gather(self) -> None:
        """Copy the members that are still trained out of the ensemble."""
        self._alive = self.running
        everyone = len(self._alive) == len(self.ensemble)
        self._work = self.ensemble if everyone else self.ensemble.members(self._alive)
        self._rates = self.learning_rates[self._alive]

    def _write_back(self) -> None:
        if self._work is not self.ensemble and self._alive:
            self.ensemble.weights[self._alive] = self._work.weights

    def _all_examples(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.inputs.dim() == 2:
            return self.inputs, self.targets
        return self.inputs[self._alive], self.targets[self._alive]

    def _examples(self, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The batches [members, B, …] with the indices `chosen` [members, B]."""
        if self.inputs.dim() == 2:
            return self.inputs[chosen], self.targets[chosen]
        members = torch.as_tensor(self._alive, device=chosen.device)[:, None]
        return self.inputs[members, chosen], self.targets[members, chosen]
