"""Arms that never grok are censored."""

import pandas as pd

from replications.grokking.analysis.modular_addition import metrics as arm_metrics
from tests.unit.replications.grokking.samples import SPIKY, curve


def test_arms_without_decay_are_censored_until_ten_times_the_time_to_grok() -> None:
    short = pd.concat([curve(SPIKY), curve([0.1] * 9, arm="none")])
    assert arm_metrics(short)["regime_reached"].tolist() == [True, False]
    long = pd.concat([curve(SPIKY), curve([0.1] * 31, arm="none")])
    assert arm_metrics(long)["regime_reached"].tolist() == [True, True]
    most_never = pd.concat([curve(SPIKY), *(curve([0.1] * 9, seed=k) for k in (1, 2)), curve([0.1] * 31, arm="none")])
    assert not arm_metrics(most_never)["regime_reached"].iloc[-1]
    nobody = pd.concat([curve([0.1] * 9), curve([0.1] * 31, arm="none")])
    assert arm_metrics(nobody)["regime_reached"].tolist() == [True, False]  # not grokking is a result; length unknown
