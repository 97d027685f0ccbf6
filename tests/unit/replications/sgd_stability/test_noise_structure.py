"""Thresholds of both noises."""

import pytest
import torch

from replications.sgd_stability import noise_structure
from replications.sgd_stability.analysis.noise_structure import metrics as noise_structure_metrics
from replications.sgd_stability.shared.noise_thresholds import critical_scale, geometry_aware_load
from tests.unit.replications.sgd_stability.samples import records


def test_the_lectures_conditions_are_necessary_and_attained_where_every_step_is_one() -> None:
    setting = {"parameters": 20, "examples": 8, "batch_size": 2, "trajectories": 200}
    table = noise_structure_metrics(records(noise_structure, seeds=1, **setting)).iloc[0]
    assert 0 < table["geometry_condition"] <= 1
    assert 0 < table["isotropic_condition"] <= 1
    flat = torch.ones(1, 5, dtype=torch.float64)
    assert float(critical_scale(flat, geometry_aware_load, 5)) == pytest.approx(1)  # η‖H‖_F = √5 = √B
