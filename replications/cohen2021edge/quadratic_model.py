"""From one point of training: gradient descent on the loss, and on the quadratic Taylor expansion of the loss there."""

from collections.abc import Iterator, Sequence

import torch

from common.experiments import Field, RunContext
from common.hessian import Hessian, Problem

from .shared.setting import PAPER, Setting
from .shared.training import Training


class Parameters(Setting):
    """Settings of a run; the grid varies the moment at which the expansion is made."""

    start_ratio: float = Field(
        1.03,
        gt=0,
        description="the expansion is made where λ₁ first is so many times 2/η",
        source=f"{PAPER}, our choice",
    )
    wait: int = Field(
        0,
        ge=0,
        unit="steps",
        description="since λ₁ first was at 2/η, before the expansion is made",
        source="our choice",
    )
    horizon: int = Field(100, ge=2, unit="steps", description="on the loss and on its expansion", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train each seed once, and descend both ways at the moment of each of its runs."""
    first = {one.seed: one for one in reversed(runs)}
    member_of = {seed: member for member, seed in enumerate(first)}
    training, reached, crossed = Training(list(first.values()), context), [False] * len(runs), [-1] * len(runs)
    state = context.restore()
    if state is None:
        training.measure()
        _tell_all(runs, training, context)
    else:
        training.restore(state["training"])
        reached, crossed = list(state["reached"]), list(state["crossed"])
    while training.step < training.setting.steps and not all(reached):
        for number, one in enumerate(runs):
            member = member_of[one.seed]
            ratio = training.sharpness[member] / one.edge
            if crossed[number] < 0 and ratio >= 1:
                crossed[number] = training.step
            waited = not one.wait or 0 <= crossed[number] <= training.step - one.wait
            if not reached[number] and waited and ratio >= one.start_ratio:
                reached[number] = True
                _both_ways(training, member, one, context)
        training.advance(training.setting.measure_every)
        training.measure()
        _tell_all(runs, training, context)
        context.progress(training.step, training.setting.steps)
        context.checkpoint({"training": training.state(), "reached": reached, "crossed": crossed})


def _tell_all(runs: Sequence[Parameters], training: Training, context: RunContext) -> None:
    """Pass on what the training said of a seed, which is told to its first run, to the others."""
    members = {one.seed: member for member, one in enumerate(training.runs)}
    for one in runs:
        member = members[one.seed]
        if one is training.runs[member]:
            continue
        if training.lost[member]:
            context.diverged(one, f"the training of its seed, before step {training.step}")
        else:
            found = training.sharpness[member]
            context.record(one, kind="along", step=training.step, sharpness=found, ratio=found / one.edge)


def _both_ways(training: Training, member: int, run: Parameters, context: RunContext) -> None:
    problem = training.problem(member)
    model = list(quadratic_descent(problem, run.learning_rate, run.horizon))
    single = training.ensemble.members([member])
    for step, modelled in enumerate(model):
        loss = float(single.losses_and_gradients(*training.data)[0])
        context.record(run, kind="from_here", step=step, start=training.step, loss=loss, model_loss=modelled)
        single.weights.sub_(single.gradients, alpha=run.learning_rate)


def quadratic_descent(problem: Problem, learning_rate: float, steps: int) -> Iterator[float]:
    """Values of q(δ) = L + gᵀδ + ½ δᵀHδ along δ ← δ − η (g + Hδ) from δ = 0, the start included (steps + 1 values).

    g and H are the gradient and the Hessian of the loss at the problem's present weights.
    """
    hessian = Hessian(problem)
    start, gradient = problem.loss(), problem.gradient()
    delta, bent = torch.zeros_like(gradient), torch.zeros_like(gradient)
    for step in range(steps + 1):
        yield start + float(gradient.double() @ delta.double() + delta.double() @ bent.double() / 2)
        if step < steps:
            delta = delta - learning_rate * (gradient + bent)
            bent = hessian @ delta
