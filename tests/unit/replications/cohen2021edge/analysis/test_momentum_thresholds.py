"""What counts as a plateau at the edge."""

import pandas as pd
import pytest

from replications.cohen2021edge.analysis.momentum_thresholds import figures as plateau_figures
from replications.cohen2021edge.analysis.momentum_thresholds import metrics as plateau_metrics
from tests.unit.replications.cohen2021edge.samples import records


def test_a_plateau_counts_from_the_first_time_at_the_edge() -> None:
    row = plateau_metrics(records([0.2, 0.9, 1.1, 0.9, 1.0, 1.0, 1.0])).loc["r"]
    assert row["edge_ratio"] == pytest.approx(1.0)
    assert row["curvature_times_rate"] == pytest.approx(3.8)
    assert (row["came"], row["on_plateau"]) == (1, 1)


@pytest.mark.parametrize("last", [1.0, 0.98])
def test_a_run_that_comes_to_the_edge_late_or_never_counts_as_not_on_the_plateau(last: float) -> None:
    row = plateau_metrics(records([0.2, 0.2, 0.96, 0.97, 0.98, 0.99, last])).loc["r"]
    assert row["edge_ratio"] == pytest.approx((0.96 + 0.97 + 0.98 + 0.99 + last) / 5)
    assert (row["came"], row["on_plateau"]) == (0, 0)
    assert row["regime_reached"]


@pytest.mark.parametrize(("level", "on"), [(1.02, 1), (0.9, 0), (1.2, 0)])
def test_a_run_that_leaves_the_edge_is_not_on_the_plateau(level: float, on: float) -> None:
    row = plateau_metrics(records([0.2, 1.0, *[level] * 30])).loc["r"]
    assert (row["came"], row["on_plateau"]) == (1, on)


def test_a_run_that_was_not_followed_to_its_end_says_nothing_of_a_plateau() -> None:
    assert not plateau_metrics(records([0.2, *[1.0] * 9], steps=20)).loc["r", "regime_reached"]


def test_the_figure_of_thresholds_shows_runs_that_did_not_come_there_as_open_symbols() -> None:
    came, stayed_below = (
        records([0.2, *[1.0] * 9], seed=0, edge=22),
        records([0.2, *[0.9] * 9], run="s", seed=1, edge=22),
    )
    settings = {"training_images": 500, "width": 10}
    axes = plateau_figures(pd.concat([came, stayed_below]).assign(**settings))["thresholds"].axes[0]
    points = {line.get_markerfacecolor(): line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 2}
    assert [float(v) for v in points["none"] if v == v] == pytest.approx([0.9 * 3.8])
    assert "open" in axes.get_legend_handles_labels()[1][-1]
