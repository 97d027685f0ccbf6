"""McAllester, Donsker and Varadhan."""

from replications.sgd_stability import pac_bayes_theorem
from replications.sgd_stability.analysis.pac_bayes_theorem import metrics as theorem_metrics
from tests.context import MemoryContext
from tests.unit.replications.sgd_stability.samples import records


def test_the_theorem_on_guessers_fails_seldom_and_its_chernoff_line_only_holds_as_an_upper_bound() -> None:
    table = records(pac_bayes_theorem, MemoryContext("pac_bayes_theorem"), seeds=1, samples=300)
    found = theorem_metrics(table).iloc[0]
    assert found["worst_maurer"] <= found["worst_optimistic"] <= 0.1
    assert found["no_divergence_failure"] > 0.2
    assert found["moment"] > 0 > found["moment_with_divergence"]
    assert 0 < found["chernoff_ratio"] < 1
    assert found["finite_gap"] < 1e-8
    assert found["gaussian_gap"] < 1e-8
