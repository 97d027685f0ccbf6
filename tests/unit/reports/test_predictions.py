"""Predicted beside actual: sums over the runs that were both predicted and timed."""

from common.reports.formats import Prediction, Run
from common.reports.predictions import predicted


def run(seconds: float | None, told: float | None, basis: str = "minutes") -> Run:
    prediction = None if told is None else Prediction(seconds=told, interval=(told / 2, 2 * told), basis=basis)
    return Run(experiment="sweep", run="seed=0", outcome="completed", seconds=seconds, predicted=prediction)


def test_a_prediction_is_the_sum_over_the_runs_that_can_be_compared() -> None:
    found = predicted([run(10, 8), run(30, 12, "probe (cpu)"), run(None, 100), run(1000, None)])
    assert found is not None
    assert (found.seconds, found.lower, found.upper) == (20, 10, 40)
    assert found.basis == "minutes, probe (cpu)"
    assert found.missed == ""


def test_a_prediction_that_missed_is_told_and_none_is_none() -> None:
    longer, shorter = predicted([run(41, 20)]), predicted([run(9, 20)])
    assert longer is not None
    assert shorter is not None
    assert (longer.missed, shorter.missed) == ("more", "less")
    assert predicted([run(10, None)]) is None
