"""A thinned curve keeps what one sees of it."""

import numpy as np

from replications.grokking.analysis.shared.accuracies import thinned


def test_thinned_curves_keep_their_ends_and_extremes() -> None:
    steps = np.arange(1, 5001)
    values = np.ones(5000)
    values[3210] = 0.2
    at, kept = thinned(steps, values)
    assert len(at) < 250
    assert kept.min() == 0.2
    assert (at[0], at[-1]) == (1, 5000)
