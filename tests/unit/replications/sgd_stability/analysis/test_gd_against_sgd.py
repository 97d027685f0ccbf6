"""Which candidate stands for a run of Fig. 4's table."""

from typing import Any

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from common.figures.style import FACE
from replications.sgd_stability.analysis.gd_against_sgd import figures, metrics


def _candidates(run: str, *found: tuple[float, float, float], **columns: Any) -> list[dict[str, Any]]:
    """Rows of a run's candidates: learning rate, training loss, validation accuracy (twice the test accuracy)."""
    arm = {"arm": "gd_longer", "full_batch": True, "step_budget": "ten_epochs", "stopping_loss": 0.01, "clip": 0.0,
           "penalty": 0.0, "dataset": "mnist", "network": "fully_connected", "width": 4,
           "training_images": 20}  # fmt: skip
    rows = []
    for step in (4, 9):
        for rate, loss, validation in found:
            when = {"run": run, **arm, "step": step, "last": step == 9, "finite": loss == loss}
            accuracies = {"validation_accuracy": validation, "test_accuracy": validation / 2}
            rows.append({**when, "learning_rate": rate, "training_loss": loss, **accuracies, **columns})
    return rows


NAN = float("nan")
LOST = (1.0, NAN, 0.99)


def test_the_best_on_validation_data_of_those_that_came_to_their_end_is_chosen() -> None:
    rows = [
        *_candidates("inner", (0.1, 1e-3, 0.7), (0.2, 0.01, 0.8), (0.3, 0.02, 0.9), LOST),
        *_candidates("end", (0.1, 1e-3, 0.8), (0.2, 1e-3, 0.7)),
        *_candidates("stopped", (0.1, 0.5, 0.3), (0.2, 0.1, 0.6), LOST),
        *_candidates("alone", (0.1, 1e-3, 0.5)),
    ]
    table = metrics(pd.DataFrame(rows))
    assert table["chosen_learning_rate"].to_dict() == {"inner": 0.2, "end": 0.1, "stopped": 0.2, "alone": 0.1}
    assert table["test_accuracy"].tolist() == pytest.approx([0.4, 0.4, 0.3, 0.25])
    assert table["trained"].tolist() == [1, 1, 0, 1]
    assert table["candidates_trained"].tolist() == [2, 2, 0, 1]
    assert table["at_an_end_of_its_range"].tolist() == [0, 1, 0, 0]
    assert table["regime_reached"].tolist() == [True, True, False, True]


def test_descent_over_the_epochs_of_sgd_need_not_come_to_its_end() -> None:
    rows = [
        *_candidates("descent", (0.1, 0.5, 0.3), step_budget="epochs"),
        *_candidates("sgd", (0.1, 0.5, 0.3), step_budget="epochs", full_batch=False),
        *_candidates("lost", LOST),
    ]
    table = metrics(pd.DataFrame(rows))
    assert table.loc[["descent", "sgd"], "regime_reached"].tolist() == [True, False]
    assert table.loc["lost"].drop("regime_reached").isna().all()


def test_runs_that_were_stopped_are_hollow_and_counted() -> None:
    rows = [
        *_candidates("a", (0.1, 1e-3, 0.7), arm="sgd"),
        *_candidates("b", (0.1, 0.5, 0.7)),
        *_candidates("c", (0.1, 0.4, 0.6)),
    ]
    (figure,) = figures(pd.DataFrame(rows)).values()
    hollow = [
        line for line in figure.axes[0].lines if to_hex(line.get_markerfacecolor()) == FACE and len(line.get_xdata())
    ]
    assert [sorted(line.get_xdata()) for line in hollow] == [pytest.approx([30, 35])]
    assert "GD, ten times as many 2" in figure.get_supxlabel().replace("\n", " ")
