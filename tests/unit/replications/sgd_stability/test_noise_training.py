"""Memorising minima: methods of equal cost, a row each, the same bits after an interruption."""

import pandas as pd
import pytest

from common.experiments.context import OutOfTime
from replications.sgd_stability import alignment as alignment_experiment
from replications.sgd_stability import flat_interpolants, memorising_minimum, size_independence
from replications.sgd_stability.analysis.memorising_minimum import metrics as memorising_minimum_metrics
from tests.context import MemoryContext
from tests.unit.replications.sgd_stability.samples import images

numba = pytest.importorskip("numba")


RUNS = {
    "gd": (memorising_minimum, {"method": "gd", "weight_decay": 0.05}),
    "sgd": (memorising_minimum, {"method": "sgd"}),
    "sam": (memorising_minimum, {"method": "sam", "radii": (0.05, 0.1)}),
    "interpolant": (flat_interpolants, {"dimension": 4, "examples": 6, "width": 8, "steps": 400, "fresh_examples": 20}),
    "alignment": (
        alignment_experiment,
        {"examples": 20, "width": 5, "batch_size": 4, "measured": (0, 3, 9), "learning_rate": 0.05},
    ),
    "size": (
        size_independence,
        {"dataset": "mnist", "examples": 20, "width": 5, "longest": 30, "often": 10, "trajectory": 5},
    ),
}
SMALL = {"dimension": 6, "examples": 8, "width": 5, "epochs": 30, "fresh_examples": 20, "evaluations": 6}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_is_stopped_and_started_again_records_the_same_bits(kind: str) -> None:
    module, settings = RUNS[kind]
    if module is memorising_minimum:
        settings = SMALL | settings
    run = module.Parameters(**settings)  # type: ignore[attr-defined]
    whole = MemoryContext(data=images())
    module.run([run], whole)  # type: ignore[attr-defined]
    first = MemoryContext(data=images(), stop_at=2)
    with pytest.raises(OutOfTime):
        module.run([run], first)  # type: ignore[attr-defined]
    second = MemoryContext(data=images(), begun=first.checkpoints[-1])
    module.run([run], second)  # type: ignore[attr-defined]
    assert second.rows == whole.rows
    assert len(whole.rows) > 0


def test_methods_take_equally_many_gradients_of_examples() -> None:
    totals = set()
    for method in ("gd", "sgd", "sam"):
        context = MemoryContext()
        memorising_minimum.run([memorising_minimum.Parameters(**SMALL, method=method)], context)
        totals.add(context.rows[-1]["gradients"])
    assert len(totals) == 1


def test_constructions_and_trainings_give_one_row_each() -> None:
    context = MemoryContext()
    parameters = memorising_minimum.Parameters(**SMALL, method="constructions", wide_dimension=12)
    memorising_minimum.run([parameters], context)
    row = memorising_minimum_metrics(pd.DataFrame(context.rows)).iloc[0]
    assert row["regime_reached"]
    assert row["corrected_error"] < 1e-12
    assert row["corrected_over_bound"] == pytest.approx(1) == row["generalising_over_bound_wide"]
