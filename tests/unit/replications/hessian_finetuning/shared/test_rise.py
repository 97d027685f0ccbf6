"""The rise of the loss under noise in the weights."""

import math

import pytest
import torch
from torch import nn

from common.hessian import Problem, trace
from replications.hessian_finetuning.shared.rise import rise_under_noise


def test_it_is_half_the_trace_times_the_variance_where_the_loss_is_quadratic() -> None:
    model = nn.Linear(3, 2).double()
    inputs = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    problem = Problem(model, nn.MSELoss(), (inputs, torch.zeros(20, 2, dtype=torch.float64)))
    found = rise_under_noise(problem, 0.3, directions=4000, seed=1)
    assert found == pytest.approx(0.3**2 / 2 * trace(problem, method="exact").value, rel=0.05)


def test_it_counts_a_kink_that_the_hessian_does_not_see() -> None:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(layer.weight)
    one = torch.ones(1, 1, dtype=torch.float64)
    problem = Problem(nn.Sequential(layer, nn.ReLU()), nn.L1Loss(), (one, -one))
    found = rise_under_noise(problem, 0.1, directions=4000, seed=1)
    assert found == pytest.approx(0.1 / math.sqrt(2 * math.pi), rel=0.05)  # σ E|u| / 2
    assert trace(problem, method="exact").value == 0


def test_the_same_seed_takes_the_same_directions_and_leaves_the_weights() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    problem = Problem(model, nn.MSELoss(), (torch.ones(4, 2), torch.zeros(4, 1)))
    before = problem.vector()
    first, second, other = (rise_under_noise(problem, 0.1, directions=2, seed=seed) for seed in (3, 3, 4))
    assert first == second != other
    assert torch.equal(problem.vector(), before)
