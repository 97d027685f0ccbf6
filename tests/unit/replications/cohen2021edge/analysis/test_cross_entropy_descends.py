"""What counts as a rise to the edge and a fall from it."""

import math

import numpy as np
import pytest

from replications.cohen2021edge.analysis.cross_entropy_descends import metrics as descent_metrics
from tests.unit.replications.cohen2021edge.samples import records


def test_a_fall_is_measured_from_the_peak() -> None:
    row = descent_metrics(records([0.5, 1.2, 0.12])).loc["r"]
    assert (row["peak_ratio"], row["final_ratio"]) == (1.2, 0.12)
    assert row["log10_fall"] == pytest.approx(-1)
    assert row["regime_reached"]


@pytest.mark.parametrize(
    ("ratios", "height"),
    [
        ([0.5, 1.3, 1.1, 1.2, 0.4], 1.1),
        ([0.5, 9.0, 0.6, 0.7, 0.8, 0.1], 0.6),  # one measurement is not a peak
        ([1.5, 1.4, 1.3, 0.9, 0.8, 0.7], 0.7),  # nor is a height that it began with
    ],
)
def test_a_lasting_peak_is_a_height_of_three_measurements_in_a_row_that_was_risen_to(
    ratios: list[float], height: float
) -> None:
    assert descent_metrics(records(ratios)).loc["r", "lasting_peak_ratio"] == pytest.approx(height)


def test_a_lasting_fall_is_from_the_lasting_peak_to_the_largest_of_the_last_three() -> None:
    row = descent_metrics(records([0.5, 9.0, 1.2, 1.3, 1.4, 0.1, 0.01, 0.12])).loc["r"]
    assert row["lasting_peak_ratio"] == pytest.approx(1.2)
    assert row["log10_lasting_fall"] == pytest.approx(-1)


def test_heights_at_equal_loss_begin_where_the_edge_was_reached() -> None:
    row = descent_metrics(records([0.5, 0.9, 1.2, 1.2, 1.2, 0.12])).loc["r"]
    assert row["log10_height_along"] == pytest.approx([0, 0, 0, -1])
    assert row["log10_loss_along"] == pytest.approx([-2, -3, -4, -5])
    never = descent_metrics(records([0.5, 0.9, 0.8, 0.7])).loc["r"]
    assert np.isnan(never["log10_height_along"]).all()
    assert len(never["log10_height_along"]) == len(never["log10_loss_along"]) == 1


def test_without_a_measurement_below_the_edge_there_is_no_rise_to_it() -> None:
    assert math.isnan(descent_metrics(records([1.5, 1.4, 1.3, 1.2])).loc["r", "lasting_peak_ratio"])
