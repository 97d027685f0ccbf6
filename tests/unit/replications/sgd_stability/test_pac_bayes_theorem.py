"""McAllester, Donsker and Varadhan."""

import pandas as pd

from replications.sgd_stability import pac_bayes_theorem
from replications.sgd_stability.analysis.pac_bayes_theorem import metrics as theorem_metrics
from tests.context import MemoryContext


def test_the_theorem_on_guessers_fails_seldom_and_its_chernoff_line_only_holds_as_an_upper_bound() -> None:
    context = MemoryContext("pac_bayes_theorem")
    run = pac_bayes_theorem.Parameters(samples=300)
    pac_bayes_theorem.run([run], context)
    found = theorem_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert found["worst_maurer"] <= found["worst_optimistic"] <= 0.1
    assert found["no_divergence_failure"] > 0.2
    assert found["moment"] > 0 > found["moment_with_divergence"]
    assert 0 < found["chernoff_ratio"] < 1
    assert found["finite_gap"] < 1e-8
    assert found["gaussian_gap"] < 1e-8
