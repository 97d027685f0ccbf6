"""Table 1 and Figure 14: the sharpness of gradient descent's solutions lies at 2/η, and how it comes there."""

from collections.abc import Sequence
from typing import Any

import torch

from common.experiments import Field, RunContext
from common.hessian import Problem, sharpness
from common.training import DIVERGED, STOPPED, Descent

from .shared.image_regression import LECTURE, RegressionParameters, accuracy, first_images, networks, test_images
from .shared.image_span import ImageSpan
from .shared.squared_error import squared_error


class Parameters(RegressionParameters):
    """Settings of a run."""

    learning_rate: float = Field(
        0.1, gt=0, description="η of full-batch gradient descent", source=f"{LECTURE}, Table 1"
    )
    longest_time: float = Field(
        4000, gt=0, description="η × steps after which a run ends unstopped", source="our choice"
    )
    measure_every: float = Field(25, gt=0, description="η × steps between measurements of λ₁", source="our choice")
    relative_error: float = Field(
        0.01, gt=0, description="of λ₁ along the way; the last is measured to a tenth of it", source="our choice"
    )
    products: int = Field(100, ge=1, description="the most for one λ₁", source="our choice")
    chunk: int = Field(1000, ge=1, unit="images", description="images a pass of λ₁ takes at once", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds of one learning rate and follow λ₁ with warm starts."""
    training = _Training(runs, context)
    training.restore(context.restore())
    while not training.done:
        training.advance()
        context.progress(
            training.time, training.setting.longest_time, f"loss {float(training.descent.losses.max()):.1e}"
        )
        context.checkpoint(training.state())
    training.conclude()


class _Training:
    """The networks of all seeds and the eigenvectors found last."""

    def __init__(self, runs: Sequence[Parameters], context: RunContext) -> None:
        self.runs, self.context, self.setting = runs, context, runs[0]
        images, targets = first_images(self.setting, context)
        generators = [context.generator(run, "init") for run in runs]
        self.span = ImageSpan(networks(self.setting, generators, images.shape[1], context.device), images)
        self.ensemble, self.data = self.span.ensemble, (self.span.inputs, targets)
        self.descent = Descent(
            self.ensemble,
            *self.data,
            learning_rates=self.setting.learning_rate,
            stopping_loss=self.setting.stopping_loss,
        )
        self.vectors = torch.zeros_like(self.ensemble.weights)
        self.rounds = 0

    @property
    def steps(self) -> int:
        """Steps a round."""
        return max(1, round(self.setting.measure_every / self.setting.learning_rate))

    @property
    def time(self) -> float:
        return self.rounds * self.steps * self.setting.learning_rate

    @property
    def done(self) -> bool:
        return not self.descent.running or self.time >= self.setting.longest_time

    def advance(self) -> None:
        """Measure at the start; then a round of steps and a measurement of those that took them."""
        if self.rounds == 0:
            for member in range(len(self.runs)):
                self._measure(member)
        before = self.descent.running
        self.descent.advance(self.steps)
        for member in before:
            if self.descent.status[member] == DIVERGED:
                at = int(self.descent.steps[member])
                self.context.diverged(self.runs[member], f"loss {float(self.descent.losses[member]):.3g} at step {at}")
            else:
                self._measure(member)
        self.rounds += 1

    def _measure(self, member: int) -> None:
        problem = self._problem(member)
        start = self.vectors[member] if bool(self.vectors[member].any()) else None
        found = sharpness(
            problem,
            relative_error=self.setting.relative_error,
            products=self.setting.products,
            start=start,
            seed=self.runs[member].seed,
        )
        self.vectors[member] = found.vector
        self.context.record(
            self.runs[member],
            kind="along",
            step=int(self.descent.steps[member]),
            loss=float(self.ensemble.members([member]).losses(*self.data)[0]),
            sharpness=found.estimate.value,
            sharpness_error=found.estimate.error,
        )

    def conclude(self) -> None:
        """λ₁ of each solution from a random start, and its accuracy."""
        test = test_images(self.setting, self.context)
        for member, run in enumerate(self.runs):
            if self.descent.status[member] == DIVERGED:
                continue
            found = sharpness(
                self._problem(member),
                relative_error=self.setting.relative_error / 10,
                products=3 * self.setting.products,
                seed=run.seed,
            ).estimate
            self.context.record(
                run,
                kind="end",
                step=int(self.descent.steps[member]),
                loss=float(self.descent.losses[member]),
                sharpness=found.value,
                sharpness_error=found.error,
                stopped=bool(self.descent.status[member] == STOPPED),
                test_accuracy=accuracy(self.span.module(member), test),
            )

    def _problem(self, member: int) -> Problem:
        return Problem(self.ensemble.module(member), squared_error, self.data, chunk=self.setting.chunk)

    def state(self) -> dict[str, Any]:
        return {"descent": self.descent.state(), "vectors": self.vectors, "rounds": self.rounds}

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.descent.restore(state["descent"])
            self.vectors.copy_(state["vectors"])
            self.rounds = state["rounds"]
