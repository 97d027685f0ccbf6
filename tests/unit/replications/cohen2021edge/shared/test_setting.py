"""Thresholds of the three rules in closed form."""

import pytest

from replications.cohen2021edge.shared.setting import Setting, stability_factor


def test_thresholds_have_the_values_of_the_paper() -> None:
    assert stability_factor("gradient_descent", 0.0) == 2
    assert stability_factor("heavy_ball", 0.9) == pytest.approx(3.8)
    assert stability_factor("nesterov", 0.9) == pytest.approx(3.8 / 2.8)
    assert Setting(rule="heavy_ball", momentum=0.9, edge=19.0).learning_rate == pytest.approx(0.2)
