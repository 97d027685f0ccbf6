"""A paper that was just started runs green, and `lint` names what of it is still scaffold."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Project, make_project

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout without papers in which one was just started."""
    project = make_project(tmp_path_factory.mktemp("new") / "checkout", {})
    (project.root / "replications").mkdir()
    (project.root / "tests" / "conformance").mkdir(parents=True)
    (project.root / "tests" / "conformance" / "inventory.yaml").write_text("# what documents number\n")
    project.succeeds("new", "averages_of_draws")
    return project


def test_it_runs_to_a_reproduced_claim_and_a_page(started: Project) -> None:
    started.succeeds("reports", "averages_of_draws", "--scale", "laptop")
    verdicts = json.loads((started.root / "analysis/laptop/averages_of_draws/verdicts.json").read_text())
    assert {verdict["id"]: verdict["verdict"] for verdict in verdicts} == {
        "fig1-more-draws-smaller-error": "reproduced",
        "control-planted-effect": "reproduced",
    }
    assert "fig1" in (started.root / "reports/site/averages_of_draws.html").read_text()


def test_its_own_test_passes(started: Project) -> None:
    files = [str(path) for path in started.root.glob("tests/unit/replications/averages_of_draws/test_*.py")]
    assert files
    done = started.command(
        sys.executable, "-m", "pytest", "-n0", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={started.root}", *files
    )
    assert done.returncode == 0, done.stdout


def test_it_is_in_the_style_of_the_house(started: Project) -> None:
    done = started.command("ruff", "check", "--config", str(ROOT / "pyproject.toml"), "replications", "tests")
    assert done.returncode == 0, done.stdout


def test_lint_finds_nothing_in_a_new_paper_but_what_its_author_has_to_fill_in(started: Project) -> None:
    *found, _ = started.replicate("lint", "averages_of_draws").stdout.splitlines()
    run_it = "paper.yaml: finding 1: it says 'believe', but fig1-more-draws-smaller-error is not run."
    assert [line for line in found if not line.endswith((": still scaffold.", run_it))] == []


def test_lint_names_every_mark_of_the_scaffold(started: Project) -> None:
    marks = {
        f"{path.relative_to(started.root)}:{number}"
        for path in [*started.root.glob("replications/**/*.*"), *started.root.rglob("test*/**/*.*")]
        if path.suffix in (".py", ".yaml", ".md")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if "SCAFFOLD" in line
    }
    assert len(marks) > 8
    done = started.replicate("lint", "averages_of_draws")
    assert done.returncode == 1
    assert {line.split(": ")[0] for line in done.stdout.splitlines() if "still scaffold" in line} == marks


def test_lint_names_what_lacks_a_source_or_a_unit_and_a_file_that_is_no_experiment(started: Project) -> None:
    folder = started.root / "replications" / "averages_of_draws"
    claims, experiment, helper = folder / "claims.yaml", folder / "averaging.py", folder / "helper.py"
    before = {path: path.read_text() for path in (claims, experiment)}
    try:
        helper.touch()
        claims.write_text(before[claims].replace("locator: Fig. 1", 'locator: ""'))
        experiment.write_text(before[experiment].replace('unit="draws", ', ""))
        said = started.replicate("lint", "averages_of_draws").stdout
    finally:
        helper.unlink()
        for path, text in before.items():
            path.write_text(text)
    assert "claim fig1-more-draws-smaller-error has no locator" in said
    assert 'note: numeric parameters without a unit (that of a pure number is "1"): draws.\n' in said
    assert "replications/averages_of_draws/helper.py: config.yaml has no experiment 'helper'" in said


def test_lint_names_what_the_document_numbers_and_the_coverage_leaves_out(started: Project) -> None:
    inventory = started.root / "tests" / "conformance" / "inventory.yaml"
    before = inventory.read_text()
    try:
        inventory.write_text(before.replace("Fig.: {last: 1}", "Table: [3]"))
        said = started.replicate("lint", "averages_of_draws").stdout
    finally:
        inventory.write_text(before)
    listed = "which tests/conformance/inventory.yaml"
    assert f"paper.yaml: the coverage leaves out Table 3, {listed} lists." in said
    assert f"paper.yaml: the coverage names Fig. 1, {listed} does not list." in said


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("averages_of_draws", "exists already"), ("Not a name", "cannot name a replication"), ("../up", "cannot name")],
)
def test_a_name_that_is_taken_or_no_name_is_one_sentence(started: Project, name: str, sentence: str) -> None:
    refused = started.replicate("new", name)
    assert refused.returncode == 2
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_replications_here_are_finished() -> None:
    done = Project(ROOT).replicate("lint")
    assert done.returncode == 0, done.stdout
    for path in Path(ROOT / "replications").glob("*/paper.yaml"):
        assert f"{path.parent.name}: 0 open, " in done.stdout
