"""Runs outside their regime are drawn hollow, whatever draws them."""

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex

from common.figures import IN_REGIME, OUTSIDE_REGIME, mean_band, mean_bands, points, subplots
from common.figures.style import FACE

FRAME = pd.DataFrame(
    {
        "x": [1, 1, 2, 2, 3, 3],
        "y": [1.0, 1.1, 2.0, 2.1, 3.0, 3.1],
        "seed": [0, 1] * 3,
        "standing": [IN_REGIME] * 3 + [OUTSIDE_REGIME] + [IN_REGIME] * 2,
    }
)


def test_points_outside_the_regime_are_hollow() -> None:
    _, axes = subplots()
    full = points(axes, FRAME, "x", "y", color="#3260db", label="runs")
    hollow = next(drawn for drawn in axes.collections if drawn is not full)
    assert len(full.get_offsets()) == 5
    np.testing.assert_allclose(hollow.get_offsets(), [[2, 2.1]])
    assert to_hex(hollow.get_facecolors()[0]) == FACE
    assert axes.get_legend_handles_labels()[1] == ["runs"]


def test_a_legend_names_points_that_are_all_hollow() -> None:
    _, axes = subplots()
    points(axes, FRAME.assign(standing=OUTSIDE_REGIME), "x", "y", color="#3260db", label="runs")
    assert axes.get_legend_handles_labels()[1] == ["runs"]


def test_a_mean_over_runs_of_which_one_is_outside_its_regime_has_a_hollow_marker() -> None:
    _, axes = subplots()
    mean_band(axes, FRAME, "x", "y", markers=True)
    (hollow,) = [line for line in axes.lines if line.get_markerfacecolor() == FACE]
    assert list(hollow.get_xdata()) == [2]
    _, plain = subplots()
    mean_band(plain, FRAME.drop(columns="standing"), "x", "y", markers=True)
    assert len(plain.lines) == 1


def test_means_of_several_columns_have_hollow_markers_where_those_of_one_have() -> None:
    _, axes = subplots()
    mean_bands(axes, FRAME.assign(twice=2 * FRAME["y"]), "x", {"y": "once", "twice": "twice"}, markers=True)
    hollow = [line for line in axes.lines if line.get_markerfacecolor() == FACE]
    assert [list(line.get_xdata()) for line in hollow] == [[2], [2]]
