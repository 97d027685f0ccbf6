"""Where Theorem 3 is judged."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.flat_interpolants import metrics as flat_interpolants_metrics


def test_theorem_3_is_judged_only_where_it_says_more_than_the_error_of_nothing() -> None:
    runs = [
        {
            "run": f"{scale},{seed}",
            "examples": 4,
            "start_scale": scale,
            "seed": seed,
            "trace": trace,
            "population_error": 0.5 * trace,
            "target_power": 1.0,
            "dimension": 4,
            "path_norm": 1.0,
            "training_error": 0.0,
            "interpolation": 1e-3,
        }
        for scale, seed, trace in ((0.3, 0, 1.0), (0.3, 1, 1.5), (1.0, 0, 3.0), (1.0, 1, 5.0))
    ]
    table = flat_interpolants_metrics(pd.DataFrame(runs))
    assert table["theorem3_ratio"].tolist() == pytest.approx([2.0, 4 / 3, np.nan, np.nan], nan_ok=True)
    assert (table["log_bound_over_target"] > 0).tolist() == [False, False, True, True]
    assert table["log_error_over_bound"].iloc[2] == pytest.approx(np.log(2 / 3))
    beyond = np.log(5 / 3) / 2
    assert table["log_trace_beyond"].tolist()[2:] == pytest.approx([-beyond, beyond])
    assert table["log_population_error_beyond"].groupby([0.3, 0.3, 1.0, 1.0]).sum().tolist() == pytest.approx([0, 0])
