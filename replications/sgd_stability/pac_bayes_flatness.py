"""The PAC-Bayes bound for flat minima on trained networks: as printed and corrected, and how vacuous."""

import math
from collections.abc import Sequence
from typing import Any

import torch

from common.bounds.flatness import (
    corrected_complexity,
    grid_divergence,
    isotropic_divergence,
    noise_radius,
    printed_complexity,
)
from common.bounds.mcallester import optimistic_complexity
from common.datasets import Dataset, Split
from common.experiments import Field, RunContext
from common.experiments.one_by_one import one_by_one
from common.hessian import Problem
from common.hessian.ascent import maximise
from common.training import Standardise

from .shared.batch_size_comparison import ClassifierParameters, first, training_split
from .shared.classifiers import error_probability, hardest_first, set_flat, untrained

LECTURE = "Wu 2025"
OURS = "our choice, deviation D48"


class Parameters(ClassifierParameters):
    """Settings of the bound; those of the networks are as in large_batch."""

    delta: float = Field(0.05, gt=0, lt=1, description="δ, the allowed probability of failure", source=OURS)
    sigmas: tuple[float, ...] = Field(
        (0.0025, 0.005, 0.01, 0.02, 0.04, 0.16, 0.64, 2.56),
        description="σ of the noise, a grid laid before training",
        source=OURS,
    )
    draws: int = Field(30, ge=1, description="of the noise, for each σ", source=OURS)
    noise_images: int = Field(1000, ge=20, unit="images", description="behind losses under noise", source=OURS)
    ascent_images: int = Field(500, ge=20, unit="images", description="behind the maximum over a ball", source=OURS)
    ascent_steps: int = Field(6, ge=1, description="of projected gradient ascent", source=OURS)


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Evaluate every version of the bound at each σ, network by network."""
    data = context.data(runs[0].dataset)
    for run in one_by_one(runs, context):
        _one_network(run, context, data)


def _one_network(run: Parameters, context: RunContext, data: Dataset) -> None:
    standardise = Standardise.by_shares(*data.train.channel_statistics())
    training = training_split(run, data).to(context.device)
    test = data.test.subset(len(data.test), seed="pac_bayes_flatness").to(context.device)
    kept = context.artifact(run, "network", "weights")
    weights = kept["weights"].double()
    network = untrained(run.architecture, training.inputs[0].numel(), run.hidden).to(context.device)
    set_flat(network, weights)
    values: dict[str, Any] = {
        "parameters": len(weights),
        "loss": error_probability(network, training, standardise),
        "test_loss": error_probability(network, test, standardise),
        "squared_norm": float(weights.square().sum()),
        "squared_distance": float((weights - kept["initial"].double()).square().sum()),
    }
    for sigma in run.sigmas:
        source, splits = context.generator(run, "probes"), (training, test)
        rises = _rises(run, sigma, network, weights=weights, splits=splits, standardise=standardise, source=source)
        context.record(run, sigma=sigma, **values, **rises, **_complexities(run, values, sigma))
        set_flat(network, weights)


def _rises(
    run: Parameters,
    sigma: float,
    network: torch.nn.Module,
    *,
    weights: torch.Tensor,
    splits: tuple[Split, Split],
    standardise: Standardise,
    source: torch.Generator,
) -> dict[str, float]:
    """What noise of standard deviation σ and the worst step of length σ and ρ add to the probability of error."""
    found: dict[str, float] = {}
    for name, split in zip(("noise", "test_noise"), splits, strict=True):
        part = first(split, run.noise_images)
        set_flat(network, weights)
        here = error_probability(network, part, standardise)
        shaken = 0.0
        for _ in range(run.draws):
            step = sigma * torch.randn(weights.shape, generator=source, dtype=torch.float64).to(weights.device)
            set_flat(network, weights + step)
            shaken += error_probability(network, part, standardise) / run.draws
        found[f"{name}_rise"] = shaken - here
    set_flat(network, weights)
    part = hardest_first(network, first(splits[0], run.ascent_images), standardise)
    here = error_probability(network, part, standardise)
    problem = Problem(network, torch.nn.CrossEntropyLoss(), (standardise(part.inputs), part.targets))
    radius = noise_radius(sigma, parameters=len(weights), examples=run.training_images)
    for name, length in (("printed_ball", sigma), ("ball", radius)):
        start = torch.randn(weights.shape, generator=source, dtype=torch.float64).to(weights)
        worst = _worst_step(problem, start, length, run.ascent_steps)
        with problem.at(problem.vector() + worst):
            there = error_probability(network, part, standardise)
        found[f"{name}_rise"] = max(there - here, 0.0)
    return found


def _worst_step(problem: Problem, start: torch.Tensor, length: float, steps: int) -> torch.Tensor:
    """A step [P] of at most `length` that raises cross-entropy, by ascent (1 − p_y itself goes flat far away)."""
    at = problem.vector()

    def value_and_gradient(step: torch.Tensor) -> tuple[float, torch.Tensor]:
        with problem.at(at + step):
            return problem.loss(), problem.gradient()

    def onto_ball(step: torch.Tensor) -> torch.Tensor:
        return step * (length / max(float(step.norm()), length))

    first = (length * start / start.norm()).to(at)
    return maximise(value_and_gradient, first, onto_ball, steps).point


def _complexities(run: Parameters, values: dict[str, Any], sigma: float) -> dict[str, float]:
    """The square roots: as printed with ρ = σ and with ρ → ∞, corrected with the prior at 0 and at the initial weights.

    `optimistic`: prior variance and σ chosen after training, nothing paid for it, at the initial weights.
    """
    k, n, delta = values["parameters"], run.training_images, run.delta
    norm, distance = (torch.tensor(values[name], dtype=torch.float64) for name in ("squared_norm", "squared_distance"))
    best = isotropic_divergence(distance, variance=sigma**2, prior_variance=sigma**2 + distance / k, parameters=k)
    common: dict[str, Any] = {"parameters": k, "examples": n, "delta": delta}
    corrected = {"sigma": sigma, "choices": len(run.sigmas), **common}
    found = {
        "complexity_printed": printed_complexity(norm, radius=sigma, **common),
        "complexity_free": printed_complexity(norm, radius=math.inf, **common),
        "complexity_corrected": corrected_complexity(norm, **corrected),
        "complexity_initial": corrected_complexity(distance, **corrected),
        "complexity_optimistic": optimistic_complexity(best, examples=n, delta=delta),
        "divergence": grid_divergence(distance, variance=sigma**2, parameters=k).divergence,
    }
    return {name: float(value) for name, value in found.items()} | {"tail": 1 / math.sqrt(n)}
