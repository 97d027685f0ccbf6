"""The worst step of a ball."""

import pandas as pd
import pytest
import torch

from common.hessian import Problem
from replications.sgd_stability.analysis.pac_bayes_flatness import VERSIONS, metrics
from replications.sgd_stability.pac_bayes_flatness import _worst_step


def test_the_worst_step_of_a_ball_lies_on_its_border_and_beats_random_ones() -> None:
    network = torch.nn.Linear(4, 3)
    inputs, targets = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3
    problem = Problem(network, torch.nn.CrossEntropyLoss(), (inputs, targets))
    at, source = problem.vector(), torch.Generator().manual_seed(1)
    start = torch.randn(15, generator=source)
    step = _worst_step(problem, start, 0.5, 20)
    assert float(step.norm()) == pytest.approx(0.5, rel=1e-4)

    def loss(move: torch.Tensor) -> float:
        with problem.at(at + move):
            return problem.loss()

    others = torch.randn(200, 15, generator=source)
    best = max(loss(0.5 * other / other.norm()) for other in others)
    assert loss(step) > best > problem.loss()


def test_the_margin_as_assumed_leaves_out_noise_that_lowers_the_test_loss() -> None:
    columns = {name for pair in VERSIONS.values() for name in pair} | {"tail", "complexity_optimistic", "loss"}
    common = {**dict.fromkeys(columns, 0.01), "test_loss": 0.5}
    rows = [
        {**common, "run": run, "sigma": sigma, "complexity_free": free, "test_noise_rise": rise}
        for run, rises in (("a", (-0.1, 0.1)), ("b", (-0.1, -0.2)))
        for sigma, free, rise in zip((0.01, 0.02), (0.1, 0.3), rises, strict=True)
    ]
    table = metrics(pd.DataFrame(rows))
    assert table.loc["a", "free_margin"] == pytest.approx(0.11 - 0.49)
    assert table.loc["a", "free_margin_as_assumed"] == pytest.approx(0.31 - 0.49)
    assert pd.isna(table.loc["b", "free_margin_as_assumed"])


def test_parts_of_the_bound_are_judged_where_the_network_works_under_its_noise() -> None:
    columns = {name for pair in VERSIONS.values() for name in pair} | {"tail", "loss"}
    common = {**dict.fromkeys(columns, 0.0), "run": "a", "test_loss": 0.05}
    rows = [
        {
            **common,
            "sigma": sigma,
            "noise_rise": rise,
            "test_noise_rise": test,
            "ball_rise": ball,
            "complexity_initial": root,
            "complexity_corrected": 9.0,
            "complexity_optimistic": 0.9 * root,
        }
        for sigma, rise, test, ball, root in (
            (0.01, 0.02, 0.01, 0.5, 1.5),
            (0.04, 0.09, 0.03, 0.6, 1.2),
            (2.56, 0.9, -0.2, 0.9, 0.1),
        )
    ]
    found = metrics(pd.DataFrame(rows)).loc["a"]
    assert found["tightest"] == pytest.approx(1.0)
    assert found["working_tightest"] == pytest.approx(1.29)
    assert found["working_complexity_share"] == pytest.approx(1.2 / 1.8)
    assert found["working_union_price"] == pytest.approx(1 / 0.9 - 1)
    assert found["working_assumption_margin"] == 0.01
