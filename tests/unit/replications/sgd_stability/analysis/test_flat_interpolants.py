"""Where Theorem 3 is judged."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.flat_interpolants import figures as flat_interpolants_figures
from replications.sgd_stability.analysis.flat_interpolants import metrics as flat_interpolants_metrics


def _run(**values: float) -> dict[str, float | str]:
    run = {"examples": 4, "start_scale": 0.3, "seed": 0, "trace": 1.0, "population_error": 0.1, "target_power": 1.0,
           "dimension": 4, "width": 8, "path_norm": 1.0, "training_error": 0.0, "interpolation": 1e-3,
           **values}  # fmt: skip
    return {"run": ",".join(f"{name}={run[name]}" for name in ("examples", "start_scale", "seed")), **run}


def test_theorem_3_is_judged_only_where_it_says_more_than_the_error_of_nothing() -> None:
    runs = [
        _run(start_scale=scale, seed=seed, trace=trace, population_error=0.5 * trace)
        for scale, seed, trace in ((0.3, 0, 1.0), (0.3, 1, 1.5), (1.0, 0, 3.0), (1.0, 1, 5.0))
    ]
    table = flat_interpolants_metrics(pd.DataFrame(runs))
    assert table["theorem3_ratio"].tolist() == pytest.approx([2.0, 4 / 3, np.nan, np.nan], nan_ok=True)
    assert table["theorem3_worst_ratio"].tolist() == pytest.approx([2.0, 4 / 3, 2.0, 4 / 3])
    assert (table["log_bound_over_target"] > 0).tolist() == [False, False, True, True]
    assert table["log_error_over_bound"].iloc[2] == pytest.approx(np.log(2 / 3))
    beyond = np.log(5 / 3) / 2
    assert table["log_trace_beyond"].tolist()[2:] == pytest.approx([-beyond, beyond])
    assert table["log_population_error_beyond"].groupby([0.3, 0.3, 1.0, 1.0]).sum().tolist() == pytest.approx([0, 0])


def test_the_number_of_examples_needed_is_where_the_bound_falls_below_the_error_of_nothing_for_good() -> None:
    traces = {80: 4.0, 320: 40.0, 20: 9.0, 1280: 4.0, 5120: 4.0}  # bound 0.2, 5, 4.05, 1/80, 1/320
    runs = [_run(examples=n, trace=trace) for n, trace in traces.items()]
    runs += [_run(examples=n, trace=90.0, start_scale=1.0) for n in traces]
    runs += [_run(examples=n, trace=0.1, start_scale=0.1) for n in traces]
    table = flat_interpolants_metrics(pd.DataFrame(runs))
    expected = np.log(320) + np.log(4) * np.log(5) / np.log(400)
    assert table["log_examples_needed"].tolist() == pytest.approx([expected] * 5 + [np.nan] * 10, nan_ok=True)
    smallest = [np.log(0.2)] * 5 + [np.log(90.0**2 / 320)] * 5 + [np.log(0.01 / 320)] * 5
    assert table["log_bound_over_target_to_320"].tolist() == pytest.approx(smallest)
    assert table["theorem3_worst_ratio"].tolist() == pytest.approx([0.1 * 5120 / 0.01] * 15)


def test_the_error_left_by_training_is_a_share_of_the_population_error() -> None:
    table = flat_interpolants_metrics(
        pd.DataFrame([_run(training_error=1e-4, target_power=0.5, population_error=1e-4)])
    )
    assert table["residual_share"].tolist() == pytest.approx([0.5])


def test_the_figure_has_a_panel_for_each_start_and_marks_as_many_examples_as_parameters() -> None:
    runs = [
        _run(examples=n, start_scale=scale, seed=seed) for n in (20, 80) for scale in (0.1, 0.3, 1) for seed in (0, 1)
    ]
    (figure,) = flat_interpolants_figures(pd.DataFrame(runs)).values()
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"initial weights × {scale}" for scale in ("0.1", "0.3", "1")
    ]
    assert all(
        40 in line.get_xdata() for axes in figure.axes for line in axes.lines if "parameters" in line.get_label()
    )
