"""Whatever `metrics()` and `figures()` return or raise is a sentence with file and line, or can be kept."""

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from common.workflow.analysis_output import Unusable, exported, figures_of, metrics_of

RUNS = pd.Series(["seed=0", "seed=1"], name="run")
RECORDS = pd.DataFrame({"run": ["seed=0", "seed=0", "seed=1"], "loss": [2.0, 1.0, 3.0]})
ROOT = Path(__file__).parents[3]
HERE = r"^tests/unit/workflow/test_analysis_output.py:\d+: "


def module(metrics: Any = None, figures: Any = None) -> Any:
    found = ModuleType("experiment")
    found.metrics, found.figures = metrics, figures  # type: ignore[attr-defined]
    return found


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"run": RUNS, "regime_reached": True, **columns})


def indexed(**columns: Any) -> pd.DataFrame:
    return table(**columns).set_index("run")


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        (lambda: None, r"metrics\(\) returns nothing \(None\); return a DataFrame"),
        (lambda: {"seed=0": 1.0}, "an object of type dict; return a DataFrame"),
        (lambda: [1.0], "an object of type list"),
        (lambda: np.zeros(2), "an object of type ndarray"),
        (lambda: indexed(x=1.0)["x"], "an object of type Series"),
        (lambda: indexed(x=1.0).reset_index(drop=True), "returns a row for 0, which is no run"),
        (lambda: indexed(x=1.0).rename(index={"seed=0": "seed=7"}), "returns a row for 'seed=7', which is no run"),
        (lambda: table(x=1.0).set_index(["run", "x"]), "several index levels"),
        (lambda: pd.concat([indexed(), indexed()]), "more than one row for a run"),
        (lambda: pd.concat([table(x=1.0), table(x=2.0)], axis=1), "the column '(run|regime_reached|x)' more than once"),
        (lambda: indexed().rename(columns={"regime_reached": 5}), "a column named 5"),
        (lambda: indexed().drop(columns="regime_reached"), "no column regime_reached"),
        (lambda: indexed(regime_reached="no"), "regime_reached = 'no' for seed=0; return True or False"),
        (lambda: indexed(regime_reached=0.5), "regime_reached = 0.5 for seed=0"),
        (lambda: indexed(x=[["a"], ["b"]]), "'a' in a list of the column 'x'; give numbers"),
        (lambda: indexed(x=[{1: 2}, {1: 2}]), "an object of type dict in the column 'x'"),
        (lambda: indexed(x=[1j, 2j]), "an object of type complex in the column 'x'"),
        (lambda: indexed(x=pd.Timestamp("2026-01-01")), "Timestamp in the column 'x'"),
        (lambda: indexed(x=pd.Series(["\udc80", ""], dtype=object)), "in the column 'x', which holds no character"),
    ],
)
def test_what_is_no_table_of_runs_is_a_sentence_with_file_and_line(returned: Callable[[], Any], sentence: str) -> None:
    made = returned()
    if isinstance(made, pd.DataFrame) and "run" not in made.columns and made.index.name == "run":
        made.index = pd.Index(list(made.index), name="run", dtype=object)
    with pytest.raises(Unusable, match=HERE + r".*" + sentence):
        metrics_of(module(lambda records: made), RECORDS, RUNS, ROOT)


@pytest.mark.parametrize("error", [KeyError("loss"), SystemExit(0), GeneratorExit()])
def test_what_is_raised_is_told_with_its_kind(error: BaseException) -> None:
    def fails(records: pd.DataFrame) -> Any:
        raise error

    with pytest.raises(Unusable, match=type(error).__name__):
        metrics_of(module(fails), RECORDS, RUNS, ROOT)
    with pytest.raises(Unusable, match=type(error).__name__):
        figures_of(module(figures=fails), RECORDS, ROOT)


def test_an_interrupt_ends_the_analysis() -> None:
    def stopped(records: pd.DataFrame) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        metrics_of(module(stopped), RECORDS, RUNS, ROOT)


def test_numbers_truth_values_and_texts_of_any_dtype_are_kept() -> None:
    def measured(records: pd.DataFrame) -> pd.DataFrame:
        return indexed(
            whole=pd.array([1, None], dtype="Int64"),
            single=np.float32(0.5),
            text=pd.Series(["a", "b"], dtype="category"),
            huge=[2**70, 1],
            boxed=[np.float64(1.5), np.bool_(True)],
            none=None,
            odd=[math.nan, math.inf],
            regime_reached=[1.0, np.nan],
        )

    found = metrics_of(module(measured), RECORDS, RUNS, ROOT).set_index("run")
    assert list(found.loc["seed=0", ["whole", "single", "text", "huge", "boxed"]]) == [1, 0.5, "a", 2.0**70, 1.5]
    assert found.loc["seed=1", "whole"] is None
    assert found.loc["seed=1", "boxed"] is True
    assert found.loc["seed=1", "odd"] == math.inf


def test_metrics_and_figures_get_records_that_the_other_has_not_touched() -> None:
    def spoils(records: pd.DataFrame) -> Any:
        records["loss"] = 0.0
        del records["run"]
        return indexed()

    seen: list[pd.DataFrame] = []
    before = RECORDS.copy()
    metrics_of(module(spoils), RECORDS, RUNS, ROOT)
    figures_of(module(figures=lambda records: seen.append(records) or {}), RECORDS, ROOT)
    pd.testing.assert_frame_equal(seen[0], before)


def test_each_figure_that_cannot_be_kept_has_its_sentence_and_the_others_are_kept() -> None:
    drawn = {
        "good": Figure(),
        "a/b": Figure(),
        "..": Figure(),
        "": Figure(),
        3: Figure(),
        "\udc80": Figure(),
        "axes": 4,
    }
    good, bad = figures_of(module(figures=lambda records: drawn), RECORDS, ROOT)
    assert list(good) == ["good"]
    assert len(bad) == 6
    assert "figures() names a figure 'a/b'" in bad["a/b"]
    assert "returns an object of type int as 'axes'" in bad["axes"]
    with pytest.raises(Unusable, match=HERE + r"figures\(\) returns nothing \(None\)"):
        figures_of(module(figures=lambda records: None), RECORDS, ROOT)


def test_a_figure_with_bad_tex_is_a_sentence(tmp_path: Path) -> None:
    figure = Figure()
    figure.subplots().set_title(r"$\nosuchcommand{$")
    with pytest.raises(Unusable, match="nosuchcommand"):
        exported(figure, tmp_path, "fig1", ROOT)


def test_a_list_of_numbers_a_run_is_a_curve() -> None:
    made = indexed(x=[np.zeros(3), [1, 2]])
    assert list(metrics_of(module(lambda records: made), RECORDS, RUNS, ROOT)["x"]) == [[0.0, 0.0, 0.0], [1.0, 2.0]]
