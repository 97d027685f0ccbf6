"""What every replication promises, whichever it is: a new directory is covered without an edit here."""

import importlib
import json
import math
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from common.claims import load_claims
from common.experiments.outcomes import Results
from common.experiments.replication import Replication
from common.experiments.scales import SCALES
from common.files import published, status_of
from common.reports import build_page
from common.workflow.agreement import ANALYSIS_PACKAGES
from common.workflow.discovery import discover, find
from common.workflow.rehearsed import Rehearsed
from common.workflow.state import RunState, run_states
from tests import warm
from tests.conftest import EXAMPLE, ROOT, Project, make_project

pytestmark = pytest.mark.slow

LARGEST_PAGE = 1_500_000  # bytes

BLOCKED = """
import sys

from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {names!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
sys.argv = ["replicate", *sys.argv[1:]]
from common.cli import main
main()
"""

PAPERS = sorted(path.parent for path in (ROOT / "replications").glob("*/paper.yaml"))


@pytest.fixture(scope="module", params=[*PAPERS, EXAMPLE], ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest) -> Path:
    """A replication's directory."""
    path: Path = request.param
    return path


@dataclass(frozen=True)
class Bare:
    """A checkout with one replication, all of it run at smoke scale where no analysis package can be imported."""

    project: Project
    done: "subprocess.CompletedProcess[str]"
    states: list[RunState]


@pytest.fixture(scope="module")
def bare(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bare:
    project = make_project(tmp_path_factory.mktemp("smoke") / "checkout", {folder.name: folder})
    script = BLOCKED.format(names=set(ANALYSIS_PACKAGES))
    done = project.command(sys.executable, "-c", script, "run", folder.name, "--scale", "smoke")
    return Bare(project, done, run_states(find(project.root, folder.name), "smoke", project.folders.store))


@pytest.fixture(scope="module")
def smoke(folder: Path, bare: Bare) -> Project:
    """The same checkout with the runs that need such a package, too."""
    if bare.done.returncode:
        bare.project.succeeds("run", folder.name, "--scale", "smoke", "--retry", "failed")
    return bare.project


@pytest.fixture(scope="module")
def analysed(folder: Path, smoke: Project) -> Path:
    """Metrics, figures and verdicts of the smoke run: the folder that holds them."""
    done = smoke.succeeds("step", "analyse", folder.name, "smoke")
    assert "problem" not in done.stderr
    return smoke.root / "analysis" / "smoke" / folder.name


@pytest.fixture
def replication(folder: Path, smoke: Project) -> Replication:
    return discover(smoke.root)[folder.name]


def test_a_box_without_the_analysis_packages_computes(bare: Bare) -> None:
    assert "completed" in bare.done.stdout, bare.done.stdout + bare.done.stderr
    wrong = [state for state in bare.states if state.outcome.status in ("failed", "missing", "unfinished")]
    assert all("need the package" in state.outcome.reason for state in wrong), [state.outcome for state in wrong]
    assert bare.done.returncode == int(bool(wrong)), bare.done.stdout + bare.done.stderr


def test_every_run_at_smoke_scale_is_settled_without_a_failure(replication: Replication, smoke: Project) -> None:
    states = run_states(replication, "smoke", Results(smoke.root / "results"))
    assert states
    assert {state.outcome.status for state in states} <= {"completed", "diverged", "data_unavailable", "blocked"}
    assert any(state.current for state in states)


def test_parameters_are_valid_at_every_scale_and_say_what_they_are(replication: Replication, folder: Path) -> None:
    package = "tests.example" if folder == EXAMPLE else "replications"
    for experiment in replication.experiments:
        parameters = importlib.import_module(f"{package}.{folder.name}.{experiment}").Parameters
        for name, field in parameters.model_fields.items():
            assert field.description, f"{experiment}.{name} has no description"
            assert field.json_schema_extra["source"], f"{experiment}.{name} has no source"
        for scale in SCALES:
            for run in replication.runs(experiment, scale):
                parameters(**run.settings)


def test_a_rehearsal_divides_the_sizes_that_it_names(replication: Replication) -> None:
    rehearsed = Rehearsed(replication.root, replication.name, replication.sources)
    for name in replication.experiments:
        runs = replication.runs(name, "paper")
        if runs and replication.experiment(name).rehearsal.sizes:
            assert any(rehearsed.divided(run) > 1 for run in runs), name


def test_the_paper_says_what_is_covered_and_claims_name_their_place(replication: Replication) -> None:
    paper = replication.paper
    assert paper.coverage
    assert paper.bibtex.strip().startswith("@")
    ids = [deviation.id for deviation in paper.deviations]
    assert len(ids) == len(set(ids))
    claims = load_claims(replication.folder / "claims.yaml")
    assert len({claim.id for claim in claims}) == len(claims) > 0
    for claim in claims:
        assert claim.source.document == paper.key
        replication.experiment(claim.experiment)


def test_analysis_gives_a_metric_row_a_run_the_figures_of_the_coverage_and_every_verdict(
    replication: Replication, analysed: Path, smoke: Project
) -> None:
    metrics = json.loads((analysed / "metrics.json").read_text())
    states = run_states(replication, "smoke", Results(smoke.root / "results"))
    for experiment in replication.experiments:
        rows = metrics[experiment]
        mine = [state for state in states if state.run.experiment == experiment]
        assert [row["run"] for row in rows] == [state.run.name for state in mine]
        for row, state in zip(rows, mine, strict=True):
            assert not state.current or isinstance(row["regime_reached"], bool)
    figures = json.loads((analysed / "figures.json").read_text())
    named = {(entry["experiment"], entry["name"]) for entry in figures}
    wanted = {(c.experiment, c.figure) for c in replication.paper.coverage if c.figure}
    assert wanted <= named
    for entry in figures:
        for kind in ("svg", "png", "csv"):
            assert (analysed / entry[kind]).stat().st_size > 0
    verdicts = json.loads((analysed / "verdicts.json").read_text())
    assert [v["id"] for v in verdicts] == [claim.id for claim in load_claims(replication.folder / "claims.yaml")]


def test_the_narrative_runs_from_top_to_bottom_and_the_page_stays_small(
    replication: Replication, analysed: Path, smoke: Project, caplog: pytest.LogCaptureFixture
) -> None:
    page = build_page(replication.folder, "smoke", smoke.root)
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert page.stat().st_size <= LARGEST_PAGE
    assert (smoke.root / "reports" / "site" / replication.name / "report.ipynb").is_file()


def test_a_run_killed_at_any_moment_ends_with_the_same_bits(folder: Path, smoke: Project, tmp_path: Path) -> None:
    whole = smoke.records("smoke")
    facts = [json.loads(path.read_text()) for path in smoke.root.glob("results/smoke/**/provenance.json")]
    seconds = math.fsum(fact["seconds"] for fact in facts)
    project = make_project(tmp_path / "checkout", {folder.name: folder})
    command = ("run", folder.name, "--scale", "smoke")
    environment = project.environment(REPLICATIONS_CHECKPOINT_SECONDS="0")
    moments = random.Random(7)
    kills = 0
    for _ in range(6):
        process = warm.start(project.root, command, environment, tmp_path / "out", tmp_path / "err")
        _wait_for_work(project, process)
        time.sleep(moments.uniform(0, max(seconds / 3, 0.2)))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert kills > 0, "no process lived long enough to be killed"
    project.succeeds("run", folder.name, "--scale", "smoke")
    assert project.records("smoke") == whole


def _wait_for_work(project: Project, process: BaseProcess) -> None:
    """Until the process computes (or has ended)."""
    before = time.time()
    while process.is_alive() and time.time() < before + 60:
        stats = map(status_of, published(project.root / "results" / ".work", "**/*"))
        if max((stat.st_mtime for stat in stats if stat), default=0) >= before:
            return
        time.sleep(0.01)
