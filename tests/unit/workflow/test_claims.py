"""`replicate claims` speaks of the runs that there are, although no analysis was made of them yet."""

import json

import pytest
from typer.testing import CliRunner

from common.cli import app
from common.locks import lock
from common.workflow.analyse import analyse
from common.workflow.claims import bring_up_to_date, claim_rows, outdated
from common.workflow.state import analysis_is_current
from tests.conftest import Project
from tests.unit.experiments.test_execution import execute


def verdicts(project: Project) -> dict[str, tuple[str, str]]:
    rows = claim_rows({"decay": project.replication()}, "smoke", project.folders, ())
    return {row["id"]: (row["verdict"], row["reason"]) for row in rows}


def test_verdicts_follow_runs_and_rules(in_process: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(verdicts(in_process).values()) == {("not run", "no analysis at scale smoke yet")}
    execute(in_process)
    waiting = "its runs are not analysed yet: replicate claims decay --scale smoke"
    assert set(verdicts(in_process).values()) == {("not run", waiting)}
    for _ in range(2):
        bring_up_to_date({"decay": in_process.replication()}, "smoke", in_process.folders)
    assert capsys.readouterr().err.count("decay: making metrics, figures and verdicts of its runs.") == 1
    made = in_process.root / "analysis/smoke/decay/verdicts.json"
    assert made.stat().st_mtime == 1, "the workflow makes them itself; a time of zero is none to it"
    assert {verdict for verdict, _ in verdicts(in_process).values()} == {"not decidable at this scale"}
    assert not (in_process.root / "reports" / "metrics").exists(), "git keeps no estimates of smoke runs"
    in_process.edit("claims.yaml", "decidable_from: laptop", "decidable_from: smoke")
    with lock(in_process.root / "results" / ".lock"):
        bring_up_to_date({"decay": in_process.replication()}, "smoke", in_process.folders)
    assert "verdicts as they were before: another `make reports` is at work" in capsys.readouterr().err
    bring_up_to_date({"decay": in_process.replication()}, "smoke", in_process.folders)
    assert "decidable from" not in str(verdicts(in_process)).lower()


def test_verdicts_of_other_runs_are_not_current_although_rules_and_metrics_are_the_same(in_process: Project) -> None:
    execute(in_process)
    bring_up_to_date({"decay": in_process.replication()}, "smoke", in_process.folders)
    assert analysis_is_current(in_process.replication(), "smoke", in_process.folders)
    in_process.edit("descent.py", "1e-6 * kick", "2e-6 * kick")
    assert not analysis_is_current(in_process.replication(), "smoke", in_process.folders)
    stale = dict(outdated({"decay": in_process.replication()}, "smoke", in_process.folders))
    rows = claim_rows({"decay": in_process.replication()}, "smoke", in_process.folders, stale)
    assert {row["current"] for row in rows if row["experiment"] == "descent"} == {False}
    execute(in_process)
    assert not analysis_is_current(in_process.replication(), "smoke", in_process.folders)
    bring_up_to_date({"decay": in_process.replication()}, "smoke", in_process.folders)
    assert analysis_is_current(in_process.replication(), "smoke", in_process.folders)


def test_asking_for_verdicts_leaves_the_estimates_that_git_keeps(in_process: Project) -> None:
    execute(in_process, scale="laptop")
    kept = in_process.root / "reports/metrics/laptop/decay.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("as published")
    bring_up_to_date({"decay": in_process.replication()}, "laptop", in_process.folders)
    assert kept.read_text() == "as published"
    assert "no analysis" not in str(claim_rows({"decay": in_process.replication()}, "laptop", in_process.folders, ()))


def test_verdicts_of_runs_that_are_no_longer_those_of_the_files_are_told_as_such(in_process: Project) -> None:
    execute(in_process, scale="laptop")
    bring_up_to_date({"decay": in_process.replication()}, "laptop", in_process.folders)
    assert outdated({"decay": in_process.replication()}, "laptop", in_process.folders) == []
    in_process.edit("config.yaml", "3.0]\n    seed: 5\n  together", "3.0]\n    seed: 6\n  together")
    ((where, sentence), *others) = outdated({"decay": in_process.replication()}, "laptop", in_process.folders)
    assert (where, others) == ("decay/descent", [])
    runs = in_process.replication().runs("descent", "laptop")
    new = [run for run in runs if run.axes["seed"] == 5]
    assert sentence.startswith(
        f"decay/descent: {len(new)} of {len(runs)} runs are missing or of other code or settings:"
    )


def test_a_build_leaves_the_estimates_of_experiments_without_runs_here(in_process: Project) -> None:
    kept = in_process.root / "reports/metrics/laptop/decay.json"
    kept.parent.mkdir(parents=True)
    claim, gone = "fig1-larger-steps-descend-faster", "a-claim-that-was-dropped"
    kept.write_text(json.dumps({claim: {"estimate": 3.0, "verdict": "reproduced"}, gone: {}}))
    analyse(in_process.replication(), "laptop", in_process.folders)
    assert json.loads(kept.read_text()) == {claim: {"estimate": 3.0, "verdict": "reproduced"}}


def test_metrics_that_fail_are_told_with_their_line_and_exit_code(in_process: Project) -> None:
    execute(in_process)
    in_process.edit("analysis/descent.py", "    last = records", "    1 / 0\n    last = records")
    told = "decay/descent: metrics failed: replications/decay/analysis/descent.py:10: ZeroDivisionError"
    asked = CliRunner().invoke(app, ["claims", "decay/descent", "--scale", "smoke"])
    assert asked.exit_code == 1
    assert told in asked.output
    other = CliRunner().invoke(app, ["claims", "decay/measurement", "--scale", "smoke"])
    assert other.exit_code == 0
    assert told not in other.output
