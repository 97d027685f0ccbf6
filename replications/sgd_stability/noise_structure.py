"""The importance of noise structure: how flat a minimum must be under geometry-aware and under isotropic noise."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.noise_thresholds import (
    Load,
    critical_scale,
    geometry_aware_load,
    isotropic_load,
    mean_losses,
    simulated_losses,
)

SLIDE = 'Wu 2025, "The importance of noise structure"'
OURS = "our choice, D20"


class Parameters(ExperimentParameters):
    """Settings: a random G, the number of parameters m, and the check of the exact threshold by simulation."""

    spectrum: Literal["few_examples", "full_rank"] = Field(
        "few_examples", description="G of n random gradients, or of full rank with λ_k = e^z/k, z normal", source=OURS
    )
    parameters: int = Field(100, ge=2, description="m, the dimension of parameter space", source=SLIDE)
    batch_size: int = Field(1, ge=1, unit="examples", description="B", source=SLIDE)
    examples: int = Field(10, ge=1, unit="examples", description="n of the spectrum few_examples", source=OURS)
    roughness: float = Field(0.3, ge=0, description="standard deviation of z in λ_k = e^z/k", source=OURS)
    share_of_critical: float = Field(0.9, gt=0, lt=1, description="η of the simulation over the critical", source=OURS)
    steps: int = Field(6, ge=1, unit="steps", description="length of a simulated trajectory", source=OURS)
    trajectories: int = Field(2_000, ge=10, description="simulated trajectories", source=OURS)
    largest_simulation: int = Field(100, ge=1, description="largest rank of G that is simulated", source=OURS)


def random_spectrum(run: Parameters, generator: torch.Generator) -> torch.Tensor:
    """The eigenvalues of G that are not zero [r], float64."""
    if run.spectrum == "full_rank":
        order = torch.arange(1, run.parameters + 1, dtype=torch.float64)
        drawn = torch.randn(run.parameters, generator=generator, dtype=torch.float64)
        return (run.roughness * drawn).exp() / order
    gradients = torch.randn(run.examples, run.parameters, generator=generator, dtype=torch.float64)
    gradients /= run.parameters**0.5
    small = gradients @ gradients.T if run.examples <= run.parameters else gradients.T @ gradients
    eigenvalues: torch.Tensor = torch.linalg.eigvalsh(small / run.examples)
    return eigenvalues


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Critical step sizes under both noises for all seeds, and the mean loss after a few steps against simulation."""
    setting = runs[0]
    generators = [context.generator(run, "probes") for run in runs]
    spectra = torch.stack([random_spectrum(run, generator) for run, generator in zip(runs, generators, strict=True)])
    loads: dict[str, Load] = {
        "geometry": geometry_aware_load,
        "isotropic": partial(isotropic_load, parameters=setting.parameters),
    }
    for name, load in loads.items():
        critical = critical_scale(spectra, load, setting.batch_size)
        steps = critical[:, None] * spectra
        for member, run in enumerate(runs):
            row = {
                "frobenius": float(steps[member].norm()),
                "trace": float(steps[member].sum()),
                "largest": float(steps[member].max()),
            }
            if len(spectra[member]) <= run.largest_simulation:
                row |= _simulation(run, name, run.share_of_critical * steps[member], generators[member])
            context.record(run, noise=name, **row)


def _simulation(run: Parameters, name: str, steps: torch.Tensor, generator: torch.Generator) -> dict[str, float]:
    """Mean loss after the last step: by the recursion, simulated, and the simulation's standard error."""
    noise = steps if name == "geometry" else (steps.sum() / run.parameters).expand_as(steps)
    start = torch.randn(steps.shape, generator=generator, dtype=torch.float64)
    predicted = mean_losses(steps[None], noise[None], start[None], run.batch_size, run.steps)[0, -1]
    found = simulated_losses(
        steps,
        noise,
        start,
        batch_size=run.batch_size,
        count=run.steps,
        trajectories=run.trajectories,
        generator=generator,
    )[:, -1]
    return {
        "predicted": float(predicted),
        "simulated": float(found.mean()),
        "simulated_error": float(found.std() / run.trajectories**0.5),
    }
