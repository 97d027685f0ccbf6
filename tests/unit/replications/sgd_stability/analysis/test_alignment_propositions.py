"""Which random features count."""

import pandas as pd
import pytest

from replications.sgd_stability.analysis import alignment_propositions as alignment_propositions_analysis


def test_random_features_count_where_there_are_as_many_examples_as_proposition_2_asks_for() -> None:
    rows = [
        {"run": f"{model},{d}", "model": model, "dimension": d, "seed": 0, "examples": examples, "mu_smallest": 0.2}
        for model, d, examples in (
            ("linear", 16, 40_000),
            ("random_features", 8, 8**5),
            ("random_features", 8, 8**5 - 1),
            ("random_features", 16, 400_000),
        )
    ]
    table = alignment_propositions_analysis.metrics(pd.DataFrame(rows))
    assert table["regime_reached"].tolist() == [True, True, False, False]
    assert table["mu_times_dimension"].iloc[1] == pytest.approx(1.6)
