"""Figures 11 and 19, Theorem 4: from gradient descent's minimum SGD escapes exponentially fast, or stays."""

from collections.abc import Sequence
from typing import Any

import torch

from common.experiments import Field, RunContext
from common.training import DIVERGED, STOPPED, Batches, Descent, FullyConnectedEnsemble

from .shared.image_span import ImageSpan
from .shared.layered_hessians import LayeredHessians, criterion_ratio, largest_eigenvalue, non_uniformity
from .shared.linearised_sgd import LinearisedSGD
from .shared.parity import LECTURE, ParityParameters, parity_accuracy, parity_examples

DRAWN = 40
"""Trajectories of a run whose losses are recorded one by one."""
AFTERWARDS = 1000
"""Steps between checkpoints while SGD looks for its own minimum."""


class Parameters(ParityParameters):
    """Settings of a run; the network and its data are those of gd_minimum."""

    learning_rate: float = Field(0.1, gt=0, description="η of SGD", source=f"{LECTURE}, Fig. 19: that of GD")
    batch_size: int = Field(
        4, ge=1, unit="images", description="B, drawn without replacement", source="the authors' published results"
    )
    trajectories: int = Field(200, ge=2, description="of one seed", source=f"{LECTURE}, Fig. 19")
    steps: int = Field(40, ge=1, unit="steps", description="length of a trajectory", source="our choice")
    record_every: int = Field(4, ge=1, unit="steps", description="between evaluations of the loss", source="our choice")
    longest: int = Field(
        20_000, ge=0, unit="steps", description="that SGD has to find its own minimum", source="our choice"
    )
    stopping_loss: float = Field(1e-5, gt=0, description="mean squared error at which it has", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Trajectories of all seeds from their minima, then one of each seed until it has found a minimum again."""
    start = torch.stack([context.artifact(run, "minimum", "minimum")["weights"] for run in runs])
    images, targets = parity_examples(runs[0], context)
    minima = FullyConnectedEnsemble(runs[0].sizes, start)
    afterwards = _Afterwards(runs, context, minima.members(range(len(runs))), (images, targets))
    state = context.restore()
    if state is None:
        span = ImageSpan(minima, images)
        data = span.inputs, targets
        linear = [_linearised(run, context, span.ensemble, member, data) for member, run in enumerate(runs)]  # type: ignore[arg-type]
        _trajectories(runs, context, span.ensemble, data, linear)  # type: ignore[arg-type]
    afterwards.go_on(state)


def _linearised(
    run: Parameters,
    context: RunContext,
    minima: FullyConnectedEnsemble,
    member: int,
    data: tuple[torch.Tensor, torch.Tensor],
) -> LinearisedSGD:
    """The kernel at a minimum; records curvature there and what the conditions of stability say."""
    inputs, targets = (part.double() for part in data)
    layered = LayeredHessians(minima.module(member).double(), inputs, targets)
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
    per_seed, count = setting.trajectories, len(inputs)
    networks = FullyConnectedEnsemble(minima.sizes, minima.weights.repeat_interleave(per_seed, 0))
    rates = torch.full((len(networks),), setting.learning_rate, device=inputs.device)
    generators = [context.generator(run, "trajectories") for run in runs]
    errors = [
        (minima.module(member)(inputs) - targets).detach().double().flatten().expand(per_seed, -1)
        for member in range(len(runs))
    ]
    for step in range(setting.steps + 1):
        if step % setting.record_every == 0:
            losses = networks.losses(inputs, targets).double().view(len(runs), per_seed)
            for member, run in enumerate(runs):
                _record_losses(run, context, step, losses[member], errors[member].square().mean(1))
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
    run: Parameters, context: RunContext, step: int, network: torch.Tensor, linear: torch.Tensor
) -> None:
    """Losses of the trajectories [trajectories]; what is not finite any more counts as 10¹²."""
    network, linear = (values.nan_to_num(1e12, 1e12).clamp(1e-30, 1e12) for values in (network, linear))
    context.record(
        run,
        kind="losses",
        step=step,
        mean=float(network.mean()),
        median=float(network.median()),
        linear_mean=float(linear.mean()),
        linear_median=float(linear.median()),
        **{f"path{number}": float(value) for number, value in enumerate(network[:DRAWN])},
    )


class _Afterwards:
    """One network a seed, until its loss is low again."""

    def __init__(
        self,
        runs: Sequence[Parameters],
        context: RunContext,
        networks: FullyConnectedEnsemble,
        data: tuple[torch.Tensor, torch.Tensor],
    ) -> None:
        self.runs, self.context, self.networks, self.data = runs, context, networks, data
        setting = runs[0]
        generators = [context.generator(run, "batches") for run in runs]
        order = Batches(setting.training_images, setting.batch_size, generators, order="independent")
        self.descent = Descent(networks, *data, learning_rates=setting.learning_rate, batches=order)
        self.moved = False

    def go_on(self, state: dict[str, Any] | None) -> None:
        """At least as many steps as the trajectories have, then to the stopping loss."""
        setting = self.runs[0]
        if state is not None:
            self.descent.restore(state["descent"])
            self.moved = bool(state["moved"])
        if not self.moved:
            self.context.checkpoint(self._state())
            self.descent.advance(setting.steps)
            self.moved = True
        self.descent.stopping_loss = setting.stopping_loss
        while self.descent.running and int(self.descent.steps.max()) < setting.longest:
            self.context.checkpoint(self._state())
            self.descent.advance(AFTERWARDS)
            self.context.progress(setting.longest + int(self.descent.steps.max()), 2 * setting.longest)
        for member, run in enumerate(self.runs):
            self._conclude(member, run)

    def _state(self) -> dict[str, Any]:
        return {"descent": self.descent.state(), "moved": int(self.moved)}

    def _conclude(self, member: int, run: Parameters) -> None:
        if self.descent.status[member] == DIVERGED:
            self.context.record(run, kind="afterwards", settled=False, diverged=True)
            return
        model = self.networks.module(member)
        found = largest_eigenvalue(LayeredHessians(model, *self.data), self.context.generator(run, "probes"), 1e-2)
        self.context.record(
            run,
            kind="afterwards",
            settled=bool(self.descent.status[member] == STOPPED),
            diverged=False,
            steps_taken=int(self.descent.steps[member]),
            loss=float(self.descent.losses[member]),
            sharpness_after=found.value,
            test_accuracy=parity_accuracy(model, run, self.context),
        )
