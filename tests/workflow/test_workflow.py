"""From a clone to a report through Snakemake: what is due runs, nothing else does, nothing is lost."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from common.locks import lock
from tests.conftest import EXAMPLE, Project, make_project

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose report is up to date; copy it before changing it."""
    project = make_project(tmp_path_factory.mktemp("built") / "checkout", {"decay": EXAMPLE})
    done = project.replicate("reports", "--scale", "laptop")
    assert done.returncode == 0, done.stdout + done.stderr + (project.root / "logs/snakemake.log").read_text()
    assert "30 of 30 runs to compute" in done.stdout
    assert "The report: reports/index.html" in done.stdout
    return project.root


@pytest.fixture
def copy(built: Path, tmp_path: Path) -> Project:
    """A copy of the built checkout, with the times of its files."""
    shutil.copytree(built, tmp_path / "checkout", symlinks=True)
    return Project(tmp_path / "checkout")


def due(project: Project) -> list[str]:
    """Rules that a dry run wants to execute, each as often as it would."""
    done = project.snakemake("--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(
        line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line.startswith(("rule ", "localrule "))
    )


def verdicts(project: Project, paper: str = "decay") -> dict[str, str]:
    path = project.root / "analysis" / "laptop" / paper / "verdicts.json"
    return {verdict["id"]: verdict["verdict"] for verdict in json.loads(path.read_text())}


def test_one_command_ends_with_a_report_and_its_verdicts(copy: Project) -> None:
    assert verdicts(copy) == {"fig1-larger-steps-descend-faster": "reproduced", "control-planted-effect": "reproduced"}
    index = (copy.root / "reports/index.html").read_text()
    page = (copy.root / "reports/site/decay.html").read_text()
    assert "Gradient descent on a quadratic" in index
    assert "<svg" in page
    assert "the distance reached" in page


def test_an_up_to_date_report_runs_nothing(copy: Project) -> None:
    before = copy.modified()
    done = copy.succeeds("reports", "--scale", "laptop")
    assert "all runs are current" in done.stdout
    assert copy.modified() == before
    assert due(copy) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "rules"),
    [
        ("analysis/descent.py", 'xlabel="step"', 'xlabel="number"', ["all", "analyse", "index", "page"]),
        ("report.py", "shrinks", "reduces", ["all", "index", "page"]),
    ],
)
def test_editing_a_figure_or_the_narrative_computes_no_run_again(
    copy: Project, file: str, old: str, new: str, rules: list[str]
) -> None:
    copy.edit(file, old, new)
    assert due(copy) == rules


def test_another_seed_computes_that_seed_alone(copy: Project) -> None:
    before = copy.modified()
    copy.edit("config.yaml", "seed: 5", "seed: 6")
    copy.succeeds("reports", "--scale", "laptop", "--no-pages")
    after = copy.modified()
    assert {path for path in after if after[path] != before.get(path)} == {
        f"laptop/decay/{experiment}/learning_rate={rate},seed=5/outcome.json"
        for experiment in ("descent", "measurement")
        for rate in (0.1, 0.5, 3.0)
    }


def test_a_directory_copied_under_a_new_name_appears_in_workflow_and_site(copy: Project) -> None:
    shutil.copytree(copy.root / "replications/decay", copy.root / "replications/again")
    before = copy.modified()
    copy.succeeds("reports", "--scale", "laptop")
    assert verdicts(copy, "again") == verdicts(copy)
    assert 'href="site/again.html"' in (copy.root / "reports/index.html").read_text()
    assert copy.modified().items() >= before.items()
    done = copy.snakemake("--dry-run", "again")
    assert "Nothing to be done" in done.stdout + done.stderr


def test_a_failed_experiment_leaves_the_others_reported_and_is_tried_again_when_asked(copy: Project) -> None:
    before, tries = copy.records(), copy.root / "tries"
    fault = "open('tries', 'a').write('x'); raise RuntimeError('the measurement broke')\n        "
    copy.edit("measurement.py", "weights = context", f"{fault}weights = context")
    done = copy.replicate("reports", "--scale", "laptop")
    assert done.returncode == 1
    place = r"replications/decay/measurement\.py:\d+"
    assert re.search(f"decay/measurement: 15 runs failed: {place}: RuntimeError: the measurement broke", done.stdout)
    assert verdicts(copy)["fig1-larger-steps-descend-faster"] == "reproduced"
    assert copy.records() == before
    assert len(tries.read_text()) == 15
    assert copy.replicate("reports", "--scale", "laptop").returncode == 1
    assert len(tries.read_text()) == 15
    assert copy.replicate("reports", "--scale", "laptop", "--retry", "failed", "--no-pages").returncode == 1
    assert len(tries.read_text()) == 30
    copy.edit("measurement.py", fault, "")
    copy.succeeds("reports", "--scale", "laptop")
    assert copy.records() == before


def test_what_was_run_without_the_workflow_is_recomputed_when_its_code_changes(project: Project) -> None:
    project.succeeds("run", "decay", "--scale", "laptop")
    project.succeeds("reports", "--scale", "laptop", "--no-pages")
    before = project.modified()
    project.edit("descent.py", "1e-6 * kick", "1e-3 * kick")
    project.succeeds("reports", "--scale", "laptop", "--no-pages")
    after = project.modified()
    assert all(after[path] != before[path] for path in before)


def test_one_paper_that_is_not_in_order_does_not_stop_the_others(copy: Project) -> None:
    shutil.copytree(copy.root / "replications/decay", copy.root / "replications/broken")
    (copy.root / "replications/broken/config.yaml").write_text("descent: [\n")
    done = copy.replicate("reports", "--scale", "laptop", "--no-pages")
    assert done.returncode == 2
    assert "replications/broken/config.yaml:2: not valid YAML" in done.stderr
    assert "all runs are current" in done.stdout
    listed = copy.replicate("list")
    assert "decay" in listed.stdout
    assert "not valid YAML" in listed.stderr


def test_two_builds_of_one_checkout_do_not_meet(copy: Project) -> None:
    with lock(copy.root / "results/.lock"):
        done = copy.replicate("reports", "--scale", "laptop")
    assert done.returncode == 2
    assert done.stderr == (
        "replicate: another `make reports` is at work in this checkout; wait for it (--wait, make reports WAIT=1) or "
        "stop it.\n"
    )


def test_a_build_after_a_kill_goes_on(copy: Project) -> None:
    (copy.root / ".snakemake/locks").mkdir(parents=True, exist_ok=True)
    (copy.root / ".snakemake/locks/0.output.lock").write_text("reports/index.html\n")
    copy.edit("report.py", "shrinks", "reduces")
    copy.succeeds("reports", "--scale", "laptop")


def test_a_claim_about_an_arm_that_does_not_exist_is_found_before_anything_is_computed(project: Project) -> None:
    project.edit("claims.yaml", "of: {learning_rate: 0.5}", "of: {learning_rate: 0.7}")
    done = project.replicate("run", "decay", "--scale", "smoke")
    assert done.returncode == 2
    assert "claims.yaml:1" in done.stderr
    assert "0.7" in done.stderr
    assert not (project.root / "results").exists()


def test_brackets_in_a_reason_are_shown(project: Project) -> None:
    project.edit("descent.py", "rates = torch", "raise RuntimeError('bad file [a/b]')\n    rates = torch")
    project.replicate("run", "decay", "--scale", "smoke")
    done = project.succeeds("status", "--scale", "smoke")
    shown = " ".join(done.stdout.split())
    assert "RuntimeError: bad file [a/b]" in shown


def test_a_place_that_cannot_be_written_is_one_sentence(project: Project) -> None:
    (project.root / "file").write_text("")
    done = project.replicate("run", "decay", "--scale", "smoke", "--out", "file")
    assert done.returncode == 1
    assert done.stderr.startswith("replicate: ")
    assert "Traceback" not in done.stderr


def test_results_that_were_deleted_are_computed_again(copy: Project) -> None:
    before = copy.records()
    shutil.rmtree(copy.root / "results/laptop")
    copy.succeeds("reports", "--scale", "laptop", "--no-pages")
    assert copy.records() == before


def test_a_killed_process_is_a_failed_run_and_the_rest_is_reported(copy: Project) -> None:
    copy.edit("measurement.py", "weights = context", "import os; os.kill(os.getpid(), 9)\n        weights = context")
    done = copy.replicate("reports", "--scale", "laptop", "--no-pages")
    assert done.returncode == 1
    assert "its process was killed by signal 9 (9 is often: out of memory)" in done.stdout
    assert verdicts(copy)["fig1-larger-steps-descend-faster"] == "reproduced"


def test_what_fails_in_an_analysis_says_why_and_costs_nothing_else_and_damaged_records_are_made_again(
    copy: Project,
) -> None:
    copy.edit("analysis/descent.py", "axes.legend()", "raise ValueError('no legend')")
    copy.edit("analysis/measurement.py", "return records.set_index", "1 / 0\n    return records.set_index")
    done = copy.replicate("reports", "--scale", "laptop", "--no-pages")
    assert done.returncode == 1
    drawing = "replications/decay/analysis/descent.py:24: ValueError: no legend"
    measuring = "replications/decay/analysis/measurement.py:8: ZeroDivisionError"
    assert f"decay/descent: figures failed: {drawing}" in done.stdout
    assert f"decay/measurement: metrics failed: {measuring}" in done.stdout
    figures = json.loads((copy.root / "analysis/laptop/decay/figures.json").read_text())
    assert [figure["problem"] for figure in figures if figure["name"] == "fig1"] == [f"drawing failed: {drawing}"]
    assert verdicts(copy)["fig1-larger-steps-descend-faster"] == "reproduced"
    assert "decay/descent: figures failed" in copy.replicate("claims", "--scale", "laptop").stderr
    records = copy.root / "results/laptop/decay/descent/learning_rate=0.1,seed=0/records.jsonl"
    whole = records.read_bytes()
    records.write_bytes(whole.replace(b"1", b"2", 1))
    assert "its records.jsonl does not have the digest" in copy.replicate("status", "--scale", "laptop").stdout
    copy.edit("analysis/descent.py", "raise ValueError('no legend')", "axes.legend()")
    copy.edit("analysis/measurement.py", "1 / 0\n    return", "return")
    copy.succeeds("reports", "--scale", "laptop")
    assert records.read_bytes() == whole


def test_data_out_of_reach_is_reported_and_looked_for_again(copy: Project) -> None:
    copy.edit(
        "measurement.py",
        '    learning_rate: float = Field(0.1, gt=0, description="of the run that is measured", source="Fig. 1")',
        '    learning_rate: float = Field(0.1, gt=0, description="of the run that is measured", source="Fig. 1")\n'
        '    dataset: DatasetName = Field("nowhere", description="images", source="Fig. 1")',
    )
    copy.edit("measurement.py", "import ExperimentParameters", "import DatasetName, ExperimentParameters")
    copy.edit("measurement.py", "weights = context", "context.data(run.dataset)\n        weights = context")
    with (copy.root / "data/registry.yaml").open("a") as registry:
        registry.write(NOWHERE)
    done = copy.succeeds("reports", "--scale", "laptop", "--no-pages", REPLICATIONS_OFFLINE="1")
    assert "decay/measurement: 15 runs data unavailable" in done.stdout
    marker = json.loads((copy.root / "results/.jobs/laptop/decay/.data/nowhere.json").read_text())
    assert marker["digest"] is None
    assert verdicts(copy)["fig1-larger-steps-descend-faster"] == "reproduced"
    assert {"data", "run_decay__measurement"} <= set(due(copy))


NOWHERE = """
nowhere:
  title: A data set that nobody has
  version: "1"
  licence: none
  citation: none
  format: safetensors
  classes: 2
  files:
    - {name: train.safetensors, size: 10, sha256: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}
    - {name: test.safetensors, size: 10, sha256: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb}
  splits: {train: [train.safetensors], test: [test.safetensors]}
  sources:
    - {kind: mirror, folders: [nowhere]}
"""


def test_a_parameter_out_of_range_is_a_failed_run_with_its_sentence(copy: Project) -> None:
    copy.edit("config.yaml", "base: {steps: 40}", "base: {steps: 0}")
    done = copy.replicate("reports", "--scale", "laptop", "--no-pages")
    assert done.returncode == 1
    assert "config.yaml:2: descent.steps = 0 at scale laptop" in done.stdout


def test_another_scale_leaves_the_results_of_the_first(copy: Project) -> None:
    before = copy.modified()
    copy.succeeds("reports", "--scale", "smoke", "--no-pages")
    assert copy.modified().items() >= before.items()
    copy.succeeds("reports", "--scale", "laptop", "--no-pages")
    assert {path: t for path, t in copy.modified().items() if path.startswith("laptop")} == before


def test_the_snakemake_report_is_made(copy: Project) -> None:
    done = copy.snakemake("--report", "workflow.html")
    assert done.returncode == 0, done.stderr
    assert (copy.root / "workflow.html").stat().st_size > 100_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "dekay"), "there is no replication 'dekay'; did you mean 'decay'?"),
        (("run", "decay/descend"), "decay has no experiment 'descend'; did you mean 'descent'?"),
        (
            ("run", "decay", "--scale", "large"),
            "there is no scale 'large': choose one of smoke, laptop, workstation, paper.",
        ),
        (("run", "decay", "--retry", "diverged"), "--retry diverged: only 'failed' needs it"),
        (("accept", "decay", "--reason", "x"), "accept decay: name PAPER/EXPERIMENT"),
        (("accept", "decay/descent/seed=99", "--reason", "x"), "no such run at scale laptop"),
        (("data", "mnits"), "mnist"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence_and_exit_code_2(
    project: Project, arguments: tuple[str, ...], sentence: str
) -> None:
    done = project.replicate(*arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("replicate: ")


def test_outside_a_checkout_one_sentence_says_so(project: Project, tmp_path: Path) -> None:
    done = Project(tmp_path).command(*("python", "-m", "common.cli", "list"), PYTHONPATH=os.fspath(project.root))
    assert done.returncode == 2
    assert "is not inside a checkout" in done.stderr


def test_minutes_end_a_run_unfinished_with_exit_code_3_and_calling_again_continues(project: Project) -> None:
    project.edit("config.yaml", "base: {steps: 40}", "base: {steps: 40, pause: 0.02}")
    first = project.replicate("run", "decay", "--scale", "laptop", "--minutes", "0.01")
    assert first.returncode == 3
    assert "unfinished" in first.stdout
    codes = [project.replicate("run", "decay", "--scale", "laptop", "--minutes", "1").returncode for _ in range(2)]
    assert codes == [0, 0]


def test_json_listings_hold_what_the_tables_show(copy: Project) -> None:
    listed = json.loads(copy.replicate("list", "--json").stdout)
    assert [(row["paper"], row["experiments"]) for row in listed] == [("decay", ["descent", "measurement"])]
    planned = json.loads(copy.replicate("plan", "--json").stdout)
    assert [(row["runs"], row["current"], row["due"]) for row in planned["jobs"]] == [(15, 15, 0), (15, 15, 0)]
    assert planned["experiments"] == []
    (due, _) = json.loads(copy.replicate("plan", "--json", "--scale", "smoke").stdout)["experiments"]
    assert due["hours"][1] <= due["hours"][0] <= due["hours"][2]
    claims = json.loads(copy.replicate("claims", "--json").stdout)
    assert set(claims[0]) >= {"paper", "id", "experiment", "scale", "estimate", "interval", "n", "verdict", "reason"}
    assert [claim["verdict"] for claim in claims] == ["reproduced", "reproduced"]
    states = json.loads(copy.replicate("status", "--json").stdout)
    assert len(states) == 30
