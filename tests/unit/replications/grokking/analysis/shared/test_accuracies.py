"""A thinned curve keeps what one sees of it, and rows of points say how many seeds have a value."""

import numpy as np
import pandas as pd

from replications.grokking.analysis.shared.accuracies import dots, thinned


def test_thinned_curves_keep_their_ends_and_extremes() -> None:
    steps = np.arange(1, 5001)
    values = np.ones(5000)
    values[3210] = 0.2
    at, kept = thinned(steps, values)
    assert len(at) < 402
    assert kept.min() == 0.2
    assert (at[0], at[-1]) == (1, 5000)


def test_a_row_of_which_not_every_seed_has_a_value_says_so() -> None:
    steps = [1.0] * 7 + [np.nan] * 3 + [2.0] * 10 + [np.nan] * 10
    table = pd.DataFrame({"arm": np.repeat(["some", "all", "none"], 10), "steps": steps, "other": 1.0})
    settings = pd.DataFrame({"layers": [2], "width": [128], "batch_size": [256], "seed": [0]})
    columns = {"steps": "steps to 99 %", "other": "other"}
    figure = dots(table, "arm", ["some", "all", "none"], columns, title="Arms", records=settings)
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [["7 of 10 seeds", "none"], []]
