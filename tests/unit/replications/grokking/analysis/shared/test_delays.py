"""How late a run generalises, and what it looks like."""

import numpy as np
import pandas as pd
import pytest

from replications.grokking.analysis.late_grokking import metrics as late_metrics
from replications.grokking.analysis.shared.delays import behaviour, delay_metrics, log_delay_of_grokking
from tests.unit.replications.grokking.samples import SPIKY, curve


def late(stable: bool = True, seed: int = 0, arm: str = "large_decay") -> pd.DataFrame:
    """Fits at step 10 and generalises at step 120."""
    return curve([0.0] * 12 + [1.0, *([1.0] * 8 if stable else [0.5, 1.0] * 4)], arm=arm, seed=seed)


def test_the_delay_is_a_ratio_of_steps_and_unknown_of_a_run_that_never_generalises() -> None:
    table = delay_metrics(pd.concat([late(), curve([0.1] * 31, seed=1)]))
    assert table["time_to_fit"].tolist() == [10, 10]
    assert table["delay_ratio"].tolist() == pytest.approx([12, np.nan], nan_ok=True)
    assert log_delay_of_grokking(table).tolist() == pytest.approx([np.log10(12), 0])


def test_a_run_that_never_fits_has_no_delay() -> None:
    table = delay_metrics(curve([0.1] * 31).assign(training_accuracy=0.5))
    assert np.isnan(table["delay_ratio"].iloc[0])
    assert np.isnan(log_delay_of_grokking(table).iloc[0])


def test_behaviour_is_told_by_fit_delay_and_fluctuation() -> None:
    samples = {
        "a": curve([0.1] * 21),
        "b": curve([0.1, 0.3] * 10),
        "prompt": curve(SPIKY),
        "c": late(stable=False),
        "d": late(),
        "no fit": curve(SPIKY).assign(training_accuracy=0.5),
    }
    for expected, records in samples.items():
        assert behaviour(delay_metrics(records).iloc[0]) == expected


def test_arms_are_judged_only_if_large_decay_alone_generalises_ten_times_as_late_as_it_fits() -> None:
    other = curve(SPIKY, arm="nso_0.01")
    assert late_metrics(pd.concat([late(), other]))["regime_reached"].tolist() == [True, True]
    prompt = [curve(SPIKY), curve(SPIKY, seed=1), late(seed=2), other]
    assert not late_metrics(pd.concat(prompt))["regime_reached"].any()


def test_large_decay_that_never_generalises_is_not_late() -> None:
    table = late_metrics(pd.concat([curve([0.1] * 200, arm="large_decay", seed=seed) for seed in range(3)]))
    assert table["log_delay_of_grokking"].tolist() == [0, 0, 0]
    assert not table["regime_reached"].any()
