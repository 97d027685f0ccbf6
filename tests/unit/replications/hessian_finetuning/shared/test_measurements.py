"""Noise, traces of examples and bounds on networks small enough for dense matrices; metrics on numbers made by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from common.hessian import Hessian, Problem, dense
from common.hessian.kinks import closed_form_kinks
from replications.hessian_finetuning.bounds import Parameters as BoundParameters
from replications.hessian_finetuning.shared.bound_values import bound_values
from replications.hessian_finetuning.shared.example_traces import example_traces
from replications.hessian_finetuning.shared.fine_tuning import Member
from replications.hessian_finetuning.shared.perturbed_loss import perturbed_loss
from tests.unit.replications.hessian_finetuning.tiny import example_hessians, network

SIGMAS = [0.01, 0.02, 0.04, 0.08]


def problem_of(kind: str) -> Problem:
    tiny = network(3, kind=kind)
    return Problem(tiny.model, nn.CrossEntropyLoss(), tiny.train.examples())


def test_of_a_quadratic_loss_nothing_is_left_over() -> None:
    torch.manual_seed(0)
    data = torch.randn(20, 3, dtype=torch.float64), torch.randn(20, 2, dtype=torch.float64)
    problem = Problem(nn.Linear(3, 2).double(), nn.MSELoss(), data)
    for row in perturbed_loss(problem, [0.1, 1.0], draws=40, trace_error=0.01, seed=0):
        assert abs(row["remainder"]) < 1e-12
        assert abs(row["change"] - row["curvature"]) < 4 * row["change_error"]
        assert row["kinks"] == 0


def test_of_a_smooth_network_the_remainder_is_of_fourth_order_and_trace_that_of_the_dense_hessian() -> None:
    problem = problem_of("smooth")
    rows = perturbed_loss(problem, SIGMAS, draws=30, trace_error=1e-3, seed=0)
    logs = [np.log([abs(row[name]) for row in rows]) for name in ("sigma", "remainder")]
    assert np.polyfit(*logs, 1)[0] == pytest.approx(4, abs=0.15)
    trace = float(dense(Hessian(problem)).trace())
    assert 2 * rows[0]["curvature"] / SIGMAS[0] ** 2 == pytest.approx(trace, abs=5 * rows[0]["curvature_error"] * 2e4)
    assert abs(rows[0]["change"] - trace * SIGMAS[0] ** 2 / 2) < 4 * rows[0]["change_error"]


def test_of_a_unit_near_its_kink_the_remainder_is_what_the_kink_adds() -> None:
    """ℓ = (relu(w) + 1)² at w = 0.02: slope 2.04, and for noise of 0.05 the kink adds 2.04 (s φ(w/s) − w Φ(−w/s))."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.ReLU()).double()
    nn.init.constant_(model[0].weight, 0.02)
    data = torch.ones(3, 1, dtype=torch.float64), -torch.ones(3, 1, dtype=torch.float64)
    (row,) = perturbed_loss(Problem(model, nn.MSELoss(), data), [0.05], draws=400, trace_error=0.01, seed=0)
    expected = 2.04 * float(closed_form_kinks(torch.tensor(0.02), torch.tensor(0.05)))
    assert abs(row["kinks"] - expected) < 4 * row["kinks_error"]
    assert abs(row["remainder"] - expected) < 4 * row["remainder_error"] + 0.1 * expected


def test_traces_of_examples_are_those_of_their_dense_hessians() -> None:
    tiny = network(5, kind="relu", count=6)
    found = example_traces(Problem(tiny.model, nn.CrossEntropyLoss(), tiny.train.examples(), chunk=4))
    assert found.tolist() == pytest.approx([float(hessian.trace()) for hessian in example_hessians(tiny)], rel=1e-9)
    with pytest.raises(ValueError, match="piecewise linear"):
        example_traces(problem_of("smooth"))


def test_bounds_hold_what_they_are_made_of() -> None:
    tiny = network(7, kind="relu", count=40)
    start = {name: torch.zeros_like(parameter) for name, parameter in tiny.model.named_parameters()}
    setting = BoundParameters(sigmas=(0.05, 0.2), betas=(0.5,), draws=3, limit=3.0)
    found = bound_values(setting, Member(tiny.model, start, tiny.train.examples(), tiny.test.examples()), seed=0)
    weights = torch.cat([parameter.detach().flatten() for parameter in tiny.model.parameters()])
    assert found["distance"] == pytest.approx(float(weights.norm()))
    traces = example_traces(Problem(tiny.model, nn.CrossEntropyLoss(), tiny.train.examples()))
    assert found["alpha"] == pytest.approx(float(traces.max()))
    term = math.sqrt(3.0 * found["alpha"] * found["distance"] ** 2 / 40)
    assert found["hessian_bound"] == pytest.approx(found["cut_training_loss"] + term)
    assert found["cut_training_loss"] <= found["largest_loss"]
    assert found["mcallester"] > found["mcallester_bounds"]
    assert found["catoni"] > found["catoni_bounds"]
    scaled = {name: -parameter.detach() for name, parameter in tiny.model.named_parameters()}
    farther = bound_values(setting, Member(tiny.model, scaled, tiny.train.examples(), tiny.test.examples()), seed=0)
    assert farther["distance"] == pytest.approx(2 * found["distance"])
    assert farther["mcallester"] > found["mcallester"]
