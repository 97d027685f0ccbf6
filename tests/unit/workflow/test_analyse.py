"""One experiment's records, metrics and figures cost a paper's analysis nothing but that experiment."""

import json
from pathlib import Path
from typing import Any

import pytest

from common.workflow.analyse import Problem, analyse
from tests.conftest import Project
from tests.unit.experiments.test_execution import execute


def analysed(project: Project) -> tuple[list[Problem], Path]:
    problems = analyse(project.replication(), "smoke", project.folders)
    return problems, project.root / "analysis/smoke/decay"


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_an_experiment_whose_metrics_fail_is_told_and_the_others_are_built(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("analysis/measurement.py", "return records.set_index", "1 / 0\n    return records.set_index")
    in_process.edit("analysis/descent.py", 'return {"fig1": figure}', 'return {"fig1": figure, "a/b": figure}')
    line = in_process.file("analysis/measurement.py").read_text().splitlines().index("    1 / 0") + 1
    problems, place = analysed(in_process)
    failure = f"replications/decay/analysis/measurement.py:{line}: ZeroDivisionError: division by zero"
    assert Problem("measurement", f"metrics failed: {failure}") in problems
    assert [problem.experiment for problem in problems] == ["descent", "measurement"]
    assert "names a figure 'a/b'" in problems[0].sentence
    assert read(place / "problems.json") == [vars(problem) for problem in problems]
    assert in_process.folders.problems("smoke", "decay") == list(map(str, problems))
    assert "log_distance" in read(place / "metrics.json")["descent"][0]
    assert (place / "figures/descent-fig1.svg").is_file()
    assert not any("regime_reached" in row for row in read(place / "metrics.json")["measurement"])


def test_a_claim_on_metrics_that_failed_says_so(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("analysis/descent.py", "    last = records", "    return None\n    last = records")
    _, place = analysed(in_process)
    verdict = next(v for v in read(place / "verdicts.json") if v["id"] == "fig1-larger-steps-descend-faster")
    assert verdict["verdict"] == "not run"
    assert verdict["reason"].startswith("Metrics failed: replications/decay/analysis/descent.py:")
    assert "metrics() returns nothing (None)" in verdict["reason"]


def test_a_metric_of_texts_concerns_the_claims_on_it_alone(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("analysis/descent.py", 'log_distance=np.log(last["distance"])', 'log_distance="small"')
    problems, place = analysed(in_process)
    assert {problem.experiment for problem in problems} == {"descent"}
    assert "metric log_distance holds text" in problems[0].sentence
    assert len(read(place / "verdicts.json")) == 2


def test_damaged_runs_are_left_out_of_the_analysis_and_named(in_process: Project) -> None:
    execute(in_process)
    for path in (in_process.root / "results/smoke/decay/descent").glob("*seed=1/records.jsonl"):
        path.write_text(path.read_text().replace('"distance": ', '"distance": 9'))
    _, place = analysed(in_process)
    entries = {entry["run"]: entry for entry in read(place / "runs.json") if entry["experiment"] == "descent"}
    damaged = [entry for entry in entries.values() if entry["outcome"] == "damaged"]
    assert [entry["run"] for entry in damaged] == [run for run in entries if run.endswith("seed=1")]
    assert "records.jsonl does not have the digest" in damaged[0]["reason"]
    rows = {row["run"]: row for row in read(place / "metrics.json")["descent"]}
    assert rows["learning_rate=0.1,seed=1"]["log_distance"] is None
    assert rows["learning_rate=0.1,seed=0"]["log_distance"] is not None


def test_records_of_two_kinds_in_one_column_are_named_and_the_metrics_computed(in_process: Project) -> None:
    code = "context.record(run, step=0, distance=1.0, kind='a' if run.seed else 3)"
    in_process.edit("descent.py", "state = context.restore()", f"[{code} for run in runs]; state = context.restore()")
    with pytest.MonkeyPatch.context() as patched:  # as records were before a context looked at their kinds
        patched.setattr("common.experiments.context.kind_of", lambda value: "numbers")
        execute(in_process)
    problems, place = analysed(in_process)
    assert "the column 'kind' holds numbers and texts; have record() give it one kind" in problems[0].sentence
    assert not (place / "descent.parquet").exists()
    assert read(place / "metrics.json")["descent"][0]["log_distance"] is not None


def test_records_that_pandas_cannot_hold_are_named(in_process: Project) -> None:
    in_process.edit("measurement.py", "weights = context", "context.record(run, odd='\\udc80'); weights = context")
    with pytest.MonkeyPatch.context() as patched:  # as records were before a context looked at them
        patched.setattr("common.experiments.context.plain_row", dict)
        execute(in_process)
    problems, place = analysed(in_process)
    assert "its records make no table: 'utf-8' codec can't encode" in problems[0].sentence
    assert read(place / "metrics.json")["descent"][0]["log_distance"] is not None


def test_a_file_that_ends_the_process_when_imported_is_told(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("analysis/measurement.py", "import pandas", "raise SystemExit(0)\nimport pandas")
    problems, place = analysed(in_process)
    assert "cannot be imported: replications/decay/analysis/measurement.py:3: SystemExit: 0" in problems[-1].sentence
    assert (place / "verdicts.json").is_file()


def test_an_experiment_without_an_analysis_has_its_records_and_outcomes(in_process: Project) -> None:
    execute(in_process)
    in_process.file("analysis/measurement.py").unlink()
    problems, place = analysed(in_process)
    assert problems == []
    assert (place / "measurement.parquet").is_file()
    assert {row["outcome"] for row in read(place / "metrics.json")["measurement"]} == {"completed"}
    assert "log_distance" in read(place / "metrics.json")["descent"][0]


def test_a_figure_that_several_items_share_is_titled_by_all_of_them(in_process: Project) -> None:
    execute(in_process)
    lines = [
        f'  - {{item: "{item}", status: replicated, experiment: descent, figure: fig1}}\n'
        for item in ("Fig. 2", "Table 1")
    ]
    in_process.edit("paper.yaml", "deviations:", f"{''.join(lines)}deviations:")
    _, place = analysed(in_process)
    assert [entry["title"] for entry in read(place / "figures.json")] == ["Fig. 1, Fig. 2 and Table 1"]
