"""The worst step of a ball."""

import pytest
import torch

from common.hessian import Problem
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
