"""Where the rules begin to grow on a quadratic."""

import math

import pytest
import torch

from replications.cohen2021edge.quadratic_thresholds import growth_rate, threshold
from replications.cohen2021edge.shared.setting import Rule, stability_factor


@pytest.mark.parametrize("momentum", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("rule", ["heavy_ball", "nesterov"])
def test_the_formula_is_where_a_step_of_the_rule_ceases_to_contract(rule: Rule, momentum: float) -> None:
    assert threshold(rule, momentum) == pytest.approx(stability_factor(rule, momentum), rel=1e-9)


@pytest.mark.parametrize("curvature", [1.5, 1.9, 2.1])
def test_growth_on_a_quadratic_is_that_of_its_steepest_direction(curvature: float) -> None:
    slopes = torch.tensor([0.9, curvature], dtype=torch.float64)
    found = growth_rate(slopes, torch.ones(2, dtype=torch.float64), "gradient_descent", 0.0, 4000)
    assert found == pytest.approx(math.log(abs(1 - curvature)), abs=1e-3)
