"""Thresholds of decoupled noise against multipliers and simulation."""

from functools import partial

import pytest
import torch

from replications.sgd_stability.shared.noise_thresholds import (
    critical_scale,
    geometry_aware_load,
    isotropic_load,
    mean_losses,
    simulated_losses,
)
from tests.unit.replications.sgd_stability.samples import generator, normal


def test_thresholds_are_where_the_largest_multiplier_of_the_second_moments_is_one() -> None:
    values = torch.tensor([2.0, 1.0, 0.3, 0.1], dtype=torch.float64)
    parameters, batch = 9, 2
    for name, load in (("geometry", geometry_aware_load), ("flat", partial(isotropic_load, parameters=parameters))):
        steps = float(critical_scale(values[None], load, batch)) * values
        noise = steps if name == "geometry" else steps.sum() / parameters * torch.ones(4, dtype=torch.float64)
        moments = torch.diag((1 - steps) ** 2) + noise[:, None] * steps / batch
        assert float(torch.linalg.eigvals(moments).abs().max()) == pytest.approx(1, abs=1e-9)


def test_the_recursion_is_the_mean_of_simulated_losses() -> None:
    steps, start = torch.tensor([0.5, 0.2, 0.1], dtype=torch.float64), normal(3)
    predicted = mean_losses(steps[None], steps[None], start[None], 1.0, 4)[0]
    setting = {"batch_size": 1.0, "count": 4, "trajectories": 40_000}
    found = simulated_losses(steps, steps, start, **setting, generator=generator(1))  # type: ignore[arg-type]
    error = found.std(0) / 200
    assert (((found.mean(0) - predicted).abs()) <= 4 * error + 1e-12).all()
    assert float(predicted[0]) == pytest.approx(float((steps * start**2).sum() / 2))
