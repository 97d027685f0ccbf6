"""The landscape of Figs. 7, 12 and 13."""

import math

import pandas as pd
import pytest
import torch

from replications.sgd_stability import stable_minima
from replications.sgd_stability.analysis.stable_minima import metrics
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


def test_the_window_holds_the_rates_at_which_only_the_flat_minimum_is_stable() -> None:
    curvature_sharp, curvature_flat = stable_minima.curvatures(0.5)
    common = {"kind": "ends", "curvature_sharp": curvature_sharp, "curvature_flat": curvature_flat}
    common |= {"share_elsewhere": 0.0, "share_moving": 0.0, "rise_sharp": 2.0, "rise_flat": 1.0}
    rates = {0.4: (0.1, 0.9), 0.5: (0.7, 0.0), 1.5: (1.0, 0.2), 4.1: (0.0, 1.0)}  # the window is 4/9 to 4
    rows = [
        {**common, "run": f"r{rate}", "learning_rate": rate, "share_flat": flat, "share_sharp": sharp}
        for rate, (flat, sharp) in rates.items()
    ]
    table = metrics(pd.DataFrame(rows))
    assert table["window_share_flat"].tolist() == [0.7] * 4
    assert table["window_share_sharp"].tolist() == [0.2] * 4
    assert metrics(pd.DataFrame(rows[:1]))["window_share_flat"].isna().all()
