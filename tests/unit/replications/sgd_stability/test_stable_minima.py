"""The landscape of Figs. 7, 12 and 13."""

import math

import pytest
import torch

from replications.sgd_stability import stable_minima
from tests.context import MemoryContext


def test_the_landscape_has_the_curvatures_and_slopes_it_says() -> None:
    places = torch.tensor([0.0, math.pi, 0.7], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(stable_minima.landscape(places, 0.5).sum(), places, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), places)
    assert torch.allclose(first.detach(), stable_minima.slope(places.detach(), 0.5))
    assert second[:2].tolist() == pytest.approx(stable_minima.curvatures(0.5))


def test_small_steps_end_at_both_minima_and_large_ones_at_the_flat_one() -> None:
    context = MemoryContext("stable_minima")
    runs = [stable_minima.Parameters(learning_rate=eta, starts=60) for eta in (0.05, 1.5)]
    stable_minima.run(runs, context)
    small, large = (row for row in context.rows if row["kind"] == "ends")
    assert small["share_sharp"] > 0.2
    assert small["share_sharp"] + small["share_flat"] == pytest.approx(1)
    assert large["share_flat"] == 1
