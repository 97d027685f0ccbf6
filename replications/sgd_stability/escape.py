"""Figures 11 and 19, Theorem 4: from gradient descent's minimum SGD escapes exponentially fast, or stays."""

from collections.abc import Sequence
from typing import Any

import torch

from common.experiments import Field, RunContext
from common.training import DIVERGED, STOPPED, Batches, Descent, FullyConnectedEnsemble

from .shared.image_span import ImageSpan
from .shared.layered_hessians import LayeredHessians, criterion_ratio, largest_eigenvalue, non_uniformity
from .shared.linearised_sgd import LinearisedSGD, expected_losses
from .shared.parity import LECTURE, ParityParameters, parity_accuracy, parity_examples

DRAWN = 40
"""Trajectories of a run whose losses are recorded one by one."""
DENSE = 16
"""Steps after each of which the losses of the trajectories are evaluated."""
GIVEN_UP = 1e4
"""Mean squared error beyond which a network has diverged, as in `Descent`; that of f = 0 is 1."""
LEG = 1000
"""Most steps between checkpoints while SGD looks for its own minimum."""


class Parameters(ParityParameters):
    """Settings of a run; the network and its data are those of gd_minimum."""

    learning_rate: float = Field(0.05, gt=0, description="η of SGD", source=f"{LECTURE}, Fig. 19: that of GD")
    batch_size: int = Field(
        4,
        ge=1,
        unit="images",
        description="B, drawn without replacement; all images are gradient descent",
        source="the authors' published results",
    )
    trajectories: int = Field(200, ge=2, description="of one seed", source=f"{LECTURE}, Fig. 19")
    steps: int = Field(60, ge=1, unit="steps", description="length of a trajectory", source="our choice")
    record_every: int = Field(
        4, ge=1, unit="steps", description="between evaluations of the loss after the first 16", source="our choice"
    )
    shortest: int = Field(
        1000, ge=0, unit="steps", description="that SGD goes on from the minimum at least", source="our choice"
    )
    longest: int = Field(
        50_000, ge=0, unit="steps", description="that SGD has to find its own minimum", source="our choice"
    )
    stopping_loss: float = Field(1e-5, gt=0, description="mean squared error at which it has", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Trajectories of all seeds from their minima, then one of each seed until it has found a minimum again."""
    start = torch.stack([context.artifact(run, "minimum", "minimum")["weights"] for run in runs])
    images, targets = parity_examples(runs[0], context)
    span = ImageSpan(FullyConnectedEnsemble(runs[0].sizes, start), images)
    afterwards = _Afterwards(runs, context, span, targets)
    state = context.restore()
    if state is None:
        data = span.inputs, targets
        linear = [_linearised(run, context, span, member, targets) for member, run in enumerate(runs)]
        _trajectories(runs, context, span.ensemble, data, linear)  # type: ignore[arg-type]
    afterwards.go_on(state)


def _linearised(
    run: Parameters, context: RunContext, span: ImageSpan, member: int, targets: torch.Tensor
) -> LinearisedSGD:
    """The kernel at a minimum; records curvature there and what the conditions of stability say."""
    layered = LayeredHessians(
        span.ensemble.module(member).double(),  # type: ignore[arg-type]
        span.inputs.double(),
        targets.double(),
    )
    linear = LinearisedSGD(layered.kernel(), run.learning_rate, run.batch_size)
    source = context.generator(run, "probes")
    largest, uneven = largest_eigenvalue(layered, source, 1e-3), non_uniformity(layered, source, 1e-2)
    criterion = criterion_ratio(
        linear.kernel,
        1,
        learning_rate=run.learning_rate,
        batch_size=run.batch_size,
        generator=source,
        relative_error=1e-3,
    )
    context.record(
        run,
        kind="minimum",
        sharpness=largest.value,
        non_uniformity=uneven.value,
        hessian_norm=linear.hessian_norm,
        criterion=criterion.value,
        radius=linear.radius(),
        decoupled_sum=linear.decoupled_sum(),
        noise_scale=linear.noise_scale,
        test_accuracy=parity_accuracy(span.module(member), run, context),  # type: ignore[arg-type]
    )
    return linear


def _trajectories(
    runs: Sequence[Parameters],
    context: RunContext,
    minima: FullyConnectedEnsemble,
    data: tuple[torch.Tensor, torch.Tensor],
    linear: Sequence[LinearisedSGD],
) -> None:
    """Networks and linearised models of all trajectories on the same batches."""
    setting, (inputs, targets) = runs[0], data
    count = len(inputs)
    per_seed = setting.trajectories if setting.batch_size < count else 1  # with all images in each batch they are one
    networks = FullyConnectedEnsemble(minima.sizes, minima.weights.repeat_interleave(per_seed, 0))
    rates = torch.full((len(networks),), setting.learning_rate, device=inputs.device)
    generators = [context.generator(run, "trajectories") for run in runs]
    errors = [
        (minima.module(member)(inputs) - targets).detach().double().flatten().expand(per_seed, -1)
        for member in range(len(runs))
    ]
    expected = [expected_losses(model, e[0], setting.steps) for model, e in zip(linear, errors, strict=True)]
    lost = torch.zeros(len(runs), per_seed, dtype=torch.bool, device=inputs.device)
    for step in range(setting.steps + 1):
        if step <= DENSE or step % setting.record_every == 0:
            losses = networks.losses(inputs, targets).double().view(len(runs), per_seed)
            lost |= ~(losses <= GIVEN_UP)
            losses = losses.where(~lost, torch.inf)
            for member, run in enumerate(runs):
                linear_losses = errors[member].square().mean(1)
                found = {"network": losses[member], "linear": linear_losses, "expected": expected[member]}
                _record_losses(run, context, step, **found)
        for member, run in enumerate(runs):
            averages = linear[member].averages(errors[member])
            context.record(
                run,
                kind="averages",
                step=step,
                smallest_ratio=float(averages.ratio.min()),
                smallest_excess=float((averages.ratio - averages.noise).min()),
                smallest_mu=float(averages.mu.min()),
                median_mu=float(averages.mu.median()),
                median_ratio=float(averages.ratio.median()),
            )
        if step == setting.steps:
            break
        chosen = [
            torch.rand(per_seed, count, generator=generator, dtype=torch.float64).topk(setting.batch_size).indices
            for generator in generators
        ]
        batches = torch.cat(chosen).to(inputs.device)
        networks.sgd_step(inputs[batches], targets[batches], rates)
        errors = [model.step(e, c.to(e.device)) for model, e, c in zip(linear, errors, chosen, strict=True)]
        context.progress(step + 1, 2 * setting.steps)


def _record_losses(
    run: Parameters,
    context: RunContext,
    step: int,
    network: torch.Tensor,
    linear: torch.Tensor,
    expected: Sequence[float],
) -> None:
    """Losses of the trajectories [trajectories], infinite from where one diverged; what is not finite has no value."""
    values = {
        "mean": network.mean(),
        "median": network.median(),
        "linear_mean": linear.mean(),
        "linear_median": linear.median(),
        **{f"path{number}": value for number, value in enumerate(network[:DRAWN])},
    }
    context.record(
        run,
        kind="losses",
        step=step,
        trajectories_diverged=int(network.isinf().sum()),
        expected=expected[step],
        **{name: float(value) if value.isfinite() else None for name, value in values.items()},
    )


def _marks(setting: Parameters) -> list[int]:
    """Steps at which Fig. 11's course is measured: two an octave, the least and the last."""
    marks = {0, setting.shortest, setting.longest}
    for octave in range(1, setting.longest.bit_length()):
        marks |= {2**octave, 3 * 2 ** (octave - 1)}
    return sorted(mark for mark in marks | {1} if mark <= setting.longest)


class _Afterwards:
    """One network a seed, until its loss is low again."""

    def __init__(self, runs: Sequence[Parameters], context: RunContext, span: ImageSpan, targets: torch.Tensor) -> None:
        """Take the networks of `span`, which are trained in place."""
        self.runs, self.context, self.span, self.targets = runs, context, span, targets
        setting = runs[0]
        generators = [context.generator(run, "batches") for run in runs]
        order = Batches(setting.training_images, setting.batch_size, generators, order="independent")
        self.descent = Descent(
            span.ensemble,
            span.inputs,
            targets,
            learning_rates=setting.learning_rate,
            batches=order,
            diverged_above=GIVEN_UP,
        )

    def go_on(self, state: dict[str, Any] | None) -> None:
        """At least `shortest` steps, then to the stopping loss; loss, λ₁ and accuracy at each mark."""
        setting, taken, passed, going = self.runs[0], 0, 0, self.descent.running
        if state is not None:
            self.descent.restore(state["descent"])
            taken, passed, going = int(state["taken"]), int(state["passed"]), list(state["going"])
        for mark in _marks(setting)[passed:]:
            while taken < mark and self.descent.running:
                kept = {"descent": self.descent.state(), "taken": taken, "passed": passed, "going": going}
                self.context.checkpoint(kept)
                leg = min(LEG, mark - taken)
                self.descent.stopping_loss = setting.stopping_loss if taken >= setting.shortest else 0.0
                self.descent.advance(leg)
                taken += leg
                self.context.progress(setting.longest + taken, 2 * setting.longest)
            for member in going:
                self._measure(member, "course")
            going, passed = self.descent.running, passed + 1
        for member in range(len(self.runs)):
            self._measure(member, "afterwards")

    def _measure(self, member: int, kind: str) -> None:
        """A row of where a network is; one that has diverged has neither λ₁ nor accuracy."""
        run, step = self.runs[member], int(self.descent.steps[member])
        status = int(self.descent.status[member])
        row = {"kind": kind, "step": step, "settled": status == STOPPED, "lost": status == DIVERGED}
        if status == DIVERGED:
            self.context.record(run, **row)
            return
        inside = self.span.ensemble.module(member)
        layered = LayeredHessians(inside, self.span.inputs, self.targets)  # type: ignore[arg-type]
        found = largest_eigenvalue(layered, self.context.generator(run, "probes"), 1e-2)
        self.context.record(
            run,
            **row,
            loss=float(layered.errors.square().mean()),
            sharpness_now=found.value,
            test_accuracy=parity_accuracy(self.span.module(member), run, self.context),  # type: ignore[arg-type]
        )
