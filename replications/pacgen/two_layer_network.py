"""Two-layer ReLU networks trained on MNIST, kept for what is measured on them: reparametrisation and bounds."""

from collections.abc import Sequence

import torch

from common.experiments import DatasetName, ExperimentParameters, Field, RunContext

from .shared.network_data import load_problem
from .shared.two_layer import Problem

OURS = "our choice, deviation D11"


class Parameters(ExperimentParameters):
    """Settings of the training."""

    dataset: DatasetName = Field("mnist", description="images", source="Wang et al. 2018, section 7")
    training_images: int = Field(60_000, ge=10, unit="images", description="size of the training set", source=OURS)
    width: int = Field(32, ge=1, description="hidden units", source=OURS)
    batch_size: int = Field(50, ge=1, unit="images", description="images a step", source=OURS)
    learning_rate: float = Field(0.1, gt=0, description="step length of SGD", source=OURS)
    epochs: int = Field(20, ge=1, unit="epochs", description="length of training", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds together with plain SGD on cross-entropy; keep initial and final weights."""
    setting = runs[0]
    training, test = load_problem(runs, context)
    sizes = training.sizes
    initial = torch.stack([sizes.draw(context.generator(run, "init")) for run in runs]).to(context.device)
    weights, start = initial.clone(), 0
    order = [context.generator(run, "batches") for run in runs]
    if (state := context.restore()) is not None:
        weights, start = state["weights"].to(context.device), state["epoch"]
        for generator, saved in zip(order, state["batches"], strict=True):
            generator.set_state(saved)
    for epoch in range(start, setting.epochs):
        _one_epoch(weights, training, setting, order)
        losses = {"training_loss": training.mean_loss(weights), "test_loss": test.mean_loss(weights)}
        for member, run in enumerate(runs):
            context.record(run, epoch=epoch + 1, **{name: float(value[member]) for name, value in losses.items()})
        context.progress(epoch + 1, setting.epochs)
        batches = [generator.get_state() for generator in order]
        context.checkpoint({"weights": weights, "epoch": epoch + 1, "batches": batches})
    for member, run in enumerate(runs):
        if not bool(weights[member].isfinite().all()):
            context.diverged(run, f"weights not finite after {setting.epochs} epochs")
        context.save(run, "weights", {"initial": initial[member], "trained": weights[member]})


def _one_epoch(weights: torch.Tensor, training: Problem, setting: Parameters, order: Sequence[torch.Generator]) -> None:
    """Every image once, in an order of each seed's own; `weights` move in place."""
    count = training.targets.shape[1]
    orders = torch.stack([torch.randperm(count, generator=generator) for generator in order]).to(weights.device)
    members = torch.arange(len(weights), device=weights.device)[:, None]
    for chosen in torch.split(orders, setting.batch_size, 1):
        batch = Problem(training.sizes, training.images[members, chosen], training.targets[members, chosen])
        variables = weights.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(batch.losses(variables).mean(1).sum(), variables)
        weights.sub_(gradient, alpha=setting.learning_rate)
